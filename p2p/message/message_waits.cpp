// How tools see the waits of messages.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "p2p/message/message_state.hpp"

namespace weft::detail {
namespace {

using Stage = MessageOperation::Stage;

template <typename... Args>
void describe(stats::WaitDetails& details, fmt::format_string<Args...> format, Args&&... args) {
  const auto end = fmt::format_to_n(details.chars.data(), details.chars.size() - 1, format,
                                    std::forward<Args>(args)...);
  *end.out = '\0';
}

}  // namespace

stats::WaitAbout MessageState::about_receive(stats::WaitDetails& details, int from,
                                             const Tag& tag) const noexcept {
  details.tag = tag.value;
  details.mask = tag.mask;
  // A message that came and is not taken tells of a tag that was mistaken.
  int source = from;
  const Arrived* kept = nullptr;
  if (from >= 0) {
    const IncomingRing* const ring = incoming_at(from);
    kept = ring == nullptr ? nullptr : ring->first_kept();
  } else {
    for (const IncomingRing* ring = rings_.load(std::memory_order_acquire);
         ring != nullptr && kept == nullptr; ring = ring->next) {
      kept = ring->first_kept();
      source = ring->peer().rank;
    }
  }
  if (kept != nullptr)
    describe(details, "not taken: a message of rank {} with tag {}, {} bytes", source, kept->tag,
             kept->bytes);
  return {.operation = stats::Operation::recv,
          .peer = from == kAnySource ? -1 : from,
          .details = &details};
}

stats::WaitAbout MessageState::about(stats::WaitDetails& details,
                                     const MessageOperation& operation) const noexcept {
  switch (operation.stage) {
    case Stage::queued:
    case Stage::offered: {
      details.tag = operation.tag.value;
      details.mask = operation.tag.mask;
      details.bytes = operation.info.bytes;
      const OutgoingRing* const ring = outgoing_at(operation.peer);
      details.set_text(operation.stage == Stage::offered        ? "offered, not received"
                       : ring != nullptr && ring->awaits_ring() ? "the rank has not answered"
                                                                : "there is no room for it");
      return {.operation = stats::Operation::send, .peer = operation.peer, .details = &details};
    }
    case Stage::reading:
    case Stage::copying:
      details.tag = operation.info.tag;
      details.mask = ~std::uint64_t{0};
      details.bytes = operation.info.bytes;
      details.set_text(operation.stage == Stage::reading ? "being read" : "being copied to a GPU");
      return {
          .operation = stats::Operation::recv, .peer = operation.info.source, .details = &details};
    default:
      return about_receive(details, operation.peer, operation.tag);
  }
}

stats::WaitAbout MessageState::about(stats::WaitDetails& details,
                                     std::span<const MessageRequest> requests) const noexcept {
  std::size_t named = 0;
  for (const MessageRequest& request : requests) {
    if (request.operation_ == nullptr) continue;
    const stats::WaitAbout first = about(details, *request.operation_);
    if (requests.size() == 1) return first;
    break;
  }
  details = {};
  std::array<char, 88> text{};
  std::size_t at = 0;
  for (const MessageRequest& request : requests) {
    if (request.operation_ == nullptr) continue;
    const MessageOperation& operation = *request.operation_;
    const bool sends = operation.stage == Stage::queued || operation.stage == Stage::offered;
    if (operation.peer < 0 || !details.await(static_cast<std::uint64_t>(operation.peer))) continue;
    const auto end =
        fmt::format_to_n(text.data() + at, text.size() - 1 - at, "{}{} rank {} (tag {})",
                         at == 0 ? "one of: " : ", ", sends ? "send to" : "recv from",
                         operation.peer, operation.tag.value);
    at = static_cast<std::size_t>(end.out - text.data());
    ++named;
  }
  details.set_text({text.data(), at});
  // Not Operation::any: that one awaits slots.
  return {
      .operation = stats::Operation::recv,
      .more = static_cast<std::uint16_t>(std::min<std::size_t>(requests.size() - named, 0xffff)),
      .details = &details};
}

stats::WaitAbout MessageState::about(stats::WaitDetails& details,
                                     const Probed& probed) const noexcept {
  stats::WaitAbout about = about_receive(details, probed.from, probed.tag);
  about.operation = stats::Operation::probe;
  return about;
}

}  // namespace weft::detail
