// The control messages of groups: none is on the steady path.
#pragma once

#include <cstdint>

#include "p2p/slot/slot_messages.hpp"
#include "p2p/transport/control_message.hpp"
#include "p2p/transport/fabric.hpp"
#include "runtime/collective/choice.hpp"
#include "runtime/collective/signature.hpp"

namespace weft::detail {

struct CollectiveMessage {
  static constexpr p2p::MessageType kType = p2p::MessageType::collective;
  enum class What : std::uint32_t {
    open,    ///< this rank has made its area
    shared,  ///< a chunk's descriptor went ahead: look again
    failed,  ///< the group can't go on: code and text
    closed,  ///< this rank touches nobody's area any more
    waits    ///< this rank waits for the receiver's part of a call: number, mark, signature
  };

  p2p::MessageType type = kType;
  What what = What::open;
  std::uint64_t group = 0;
  p2p::MemoryRef area{};
  std::int32_t size = 0;
  std::int32_t peer = -1;  ///< failed: the rank at fault
  std::uint32_t code = 0;
  std::uint32_t mark = 0;
  std::uint64_t number = 0;
  Signature signature{};
  Choices choices{};  ///< open: what the group goes by, if the sender is its first rank
  p2p::FixedText<1024> text{};
};
static_assert(sizeof(CollectiveMessage) <= p2p::Channel::kMaxMessage);

}  // namespace weft::detail
