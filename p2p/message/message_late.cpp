// Why a message has not come or gone by a deadline.
#include <fmt/format.h>

#include "base/formatted.hpp"
#include "p2p/message/message_state.hpp"

namespace weft::detail {

using Stage = MessageOperation::Stage;

std::string text_of(const Tag& tag) {
  constexpr std::uint64_t kAllBits = ~std::uint64_t{0};
  if (tag.mask == 0) return "any tag";
  if (tag.mask == kAllBits) return fmt::format("tag {}", tag.value);
  return fmt::format("tag {}, bits {:#x}", tag.value, tag.mask);
}

Status MessageState::late(const MessageOperation& operation) const noexcept {
  const int peer = operation.peer;
  switch (operation.stage) {
    case Stage::reading:
      return failure(
          Code::timeout, "recv", operation.info.source,
          formatted("{} has not answered: its message of {} bytes (tag {}) is being read{}",
                    source_text(operation.info.source), operation.info.bytes, operation.info.tag,
                    suspicion(operation.info.source)),
          "is its process stopped, or its host gone? a longer deadline: WEFT_TIMEOUT");
    case Stage::copying:
      return failure(Code::timeout, "recv", operation.info.source,
                     formatted("the message of {} has come (tag {}), and {} has not copied it",
                               source_text(operation.info.source), operation.info.tag,
                               operation.on_gpu.memory().text()),
                     "wait for the request again: the copy goes on");
    case Stage::offered:
      return failure(Code::timeout, "send", peer,
                     formatted("{} has not received it (tag {}){}", source_text(peer),
                               operation.tag.value, suspicion(peer)),
                     "does it receive from this rank, with this tag? the tensor stays lent");
    case Stage::queued:
      return failure(Code::timeout, "send", peer,
                     outgoing_at(peer)->awaits_ring()
                         ? formatted("{} has not answered the first message{}", source_text(peer),
                                     suspicion(peer))
                         : formatted("{} has not received earlier messages of this rank: there "
                                     "is no room for more (tag {}){}",
                                     source_text(peer), operation.tag.value, suspicion(peer)),
                     "does it receive from this rank, and in the order of the sends?");
    default:
      return failure(
          Code::timeout, "recv", peer,
          formatted("no message from {} matches the receive ({}){}", source_text(peer),
                    text_or_empty([&] { return text_of(operation.tag); }), suspicion(peer)),
          "does it send with this tag? a longer deadline: WEFT_TIMEOUT");
  }
}

}  // namespace weft::detail
