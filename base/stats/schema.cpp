#include <array>

#include "base/stats/event.hpp"
#include "base/stats/layout.hpp"

namespace weft::stats {
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
    "attachment_made",
    "attachment_refused",
    "attachment_removed",
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
    "waited",
    "put",
    "arrived",
    "released",
    "credit_written",
    "published",
    "viewed",
    "node_ran",
    "edge_sent",
    "edge_received",
    "collective",
    "sent",
    "received"};
static_assert(!kEvents.back().empty(), "every event has a name");

constexpr std::array<std::string_view, static_cast<std::size_t>(Operation::count_)> kOperations{
    "none", "join", "leave",      "attach", "put",  "wait", "view",  "next",  "rendezvous", "any",
    "step", "open", "collective", "settle", "send", "recv", "probe", "serve", "signal"};
static_assert(!kOperations.back().empty(), "every operation has a name");

constexpr std::array<std::string_view, 10> kCollectives{
    "barrier",    "broadcast", "reduce",  "all_reduce", "reduce_scatter",
    "all_gather", "gather",    "scatter", "all_to_all", "scan"};

constexpr std::array<std::string_view, 5> kPathStates{"joining", "connected", "left", "failed",
                                                      "idle"};
constexpr std::array<std::string_view, 4> kEdgeStates{"free", "attaching", "live", "closing"};

template <std::size_t N, typename Number>
std::string_view name_in(const std::array<std::string_view, N>& names, Number number) noexcept {
  const auto index = static_cast<std::size_t>(number);
  return index < N ? names[index] : "unknown";
}

template <std::size_t N>
std::string line(std::string_view kind, const std::array<std::string_view, N>& names) {
  std::string text(kind);
  for (const std::string_view name : names) (text += ' ') += name;
  return text += '\n';
}

}  // namespace

std::string_view name(Event event) noexcept { return name_in(kEvents, event); }
std::string_view name(Operation operation) noexcept { return name_in(kOperations, operation); }
std::string_view name(PathState state) noexcept { return name_in(kPathStates, state); }
std::string_view name(EdgeState state) noexcept { return name_in(kEdgeStates, state); }
std::string_view role_name(Role role) noexcept { return role == kCalls ? "calls" : name(role); }
std::string_view collective_name(std::uint8_t kind) noexcept { return name_in(kCollectives, kind); }

std::string schema() {
  std::string text =
      "counters transfers bytes_moved bytes_copied work_requests credit_writes control_messages "
      "registrations credit_writes_on_demand\n"
      "gpu_counters staged_bytes device_copies gpu_flushes\n"
      "path_counters control_messages registrations rails_lost rails_back\n";
  text += line("path_states", kPathStates) + "path_healths alive slow suspect dead\n" +
          line("edge_states", kEdgeStates) + line("operations", kOperations) + "roles";
  for (const Role role : {Role::puts, Role::receives, Role::publishes, Role::views, kCalls})
    (text += ' ') += role_name(role);
  return text += '\n' + line("events", kEvents);
}

}  // namespace weft::stats
