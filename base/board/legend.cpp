#include <array>

#include "base/board/event.hpp"
#include "base/board/layout.hpp"

namespace weft::board {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(Event::count_)> kEvents{
    "none",
    "joined",
    "connected",
    "leaving",
    "peer_left",
    "peer_failed",
    "chunk_shared",
    "chunk_mapped",
    "exposed",
    "seated",
    "seat_refused",
    "unseated",
    "closing",
    "close_agreed",
    "credit_on_call",
    "attach_asked",
    "attach_granted",
    "attach_refused",
    "attach_withdrawn",
    "detached",
    "owner_closed",
    "credit_wanted",
    "staged_put",
    "timeout",
    "tensor_request",
    "meta_data_response",
    "tensor_re_request",
    "error_status",
    "tensor_written",
    "put",
    "arrived",
    "let_go",
    "credit_written",
    "published",
    "viewed"};
static_assert(!kEvents.back().empty(), "every event has a name");

}  // namespace

std::string_view name(Event event) noexcept {
  const auto index = static_cast<std::size_t>(event);
  return index < kEvents.size() ? kEvents[index] : "unknown";
}

std::string legend() {
  std::string text =
      "counters transfers bytes_moved bytes_copied work_requests credit_writes control_messages "
      "registrations credit_writes_on_demand\n"
      "path_counters control_messages registrations\n"
      "path_states joining connected left failed idle\n"
      "edge_states free attaching live closing\n"
      "roles";
  for (const Role role : {Role::puts, Role::receives, Role::publishes, Role::views})
    (text += ' ') += weft::name(role);
  text += "\nevents";
  for (const std::string_view event : kEvents) (text += ' ') += event;
  return text += '\n';
}

}  // namespace weft::board
