// Control messages of groups. The steady path sends none of them.
#pragma once

#include <cstdint>

#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/transport/control_message.hpp"
#include "p2p/transport/fabric.hpp"
#include "runtime/collective/choice.hpp"
#include "runtime/collective/signature.hpp"

namespace weft::detail {

struct CollectiveMessage {
  static constexpr p2p::MessageType kType = p2p::MessageType::collective;
  enum class What : std::uint32_t {
    open,    ///< this rank has made its area
    shared,  ///< the descriptor of a chunk precedes this message: poll again
    failed,  ///< the group has failed: `code` and `text`
    closed,  ///< this rank touches no other rank's area any more
    waits    ///< this rank waits for the receiver's part of a call: `number`, `mark`, `signature`
  };

  p2p::MessageType type = kType;
  What what = What::open;
  std::uint64_t group = 0;
  p2p::MemoryRef area{};
  std::int32_t size = 0;
  std::int32_t peer = -1;  ///< of `failed`: the rank at fault
  std::uint32_t code = 0;
  std::uint32_t mark = 0;
  std::uint64_t number = 0;
  Signature signature{};
  Choices choices{};  ///< of `open`: the group's choices, if the sender is its first rank
  p2p::FixedText<1024> text{};
};
static_assert(sizeof(CollectiveMessage) <= p2p::Channel::kMaxMessage);

}  // namespace weft::detail
