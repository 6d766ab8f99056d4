// Control messages of groups. The steady path sends none of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/transport/control_message.hpp"
#include "p2p/transport/fabric.hpp"
#include "runtime/collective/choice.hpp"
#include "runtime/collective/signature.hpp"

namespace weft::detail {

struct CollectiveMessage {
  static constexpr p2p::MessageType kType = p2p::MessageType::collective;
  enum class What : std::uint32_t {
    open,     ///< this rank opens the group: `list`, `number`, `step`, `missing`, `text`
    shared,   ///< the descriptor of a chunk precedes this message: poll again
    failed,   ///< the group has failed: `code` and `text`
    closed,   ///< this rank touches no other rank's area any more
    waits,    ///< this rank waits for the receiver's part of a call: `number`, `mark`, `signature`,
              ///< `absent`
    gave_up,  ///< this rank's open() has failed: `list`, `number`, `code`, `peer`, `text`
    entered,  ///< answers `waits`: this rank has entered that call: `number`, `absent`
    gpu       ///< this rank's word about a call that GPUs may carry out: `number`, `mark`, `code`
  };

  p2p::MessageType type = kType;
  What what = What::open;
  std::uint64_t group = 0;
  p2p::MemoryRef area{};
  std::int32_t size = 0;
  std::int32_t peer = -1;  ///< of `failed`, `gave_up`: the rank at fault
  std::uint32_t code = 0;
  std::uint32_t mark = 0;
  std::uint64_t number = 0;  ///< of a call; `open`, `gave_up`: of the groups with these ranks
  /// Of `open`: which of its messages this is, a round of the opening or one of the two below.
  std::uint32_t step = kArea;
  static constexpr std::uint32_t kArea = 0xffff;   ///< `area`, within a host: to all, or the first
  static constexpr std::uint32_t kWaits = 0xfffe;  ///< the sender is still waiting for others
  static constexpr std::uint32_t kDirectory = 0xfffd;  ///< from the first: `area` lists all areas
  static constexpr std::uint32_t kAbsent = 0xfffc;     ///< from the first: it waits for `missing`
  std::int32_t missing =
      -1;  ///< of kWaits, kAbsent: a rank that has not opened the group; -1: not known
  std::uint64_t list = 0;  ///< of `open`, `gave_up`: hash of the group's ranks
  Signature signature{};
  /// Of `waits`, `entered`: ranks that have not entered the call, as far as the sender knows; -1
  /// where there are fewer.
  static constexpr std::size_t kMostAbsent = 8;
  std::array<std::int32_t, kMostAbsent> absent = no_ranks();
  Choices choices{};  ///< of `open`: those of the group's first rank, if the sender knows them
  p2p::FixedText<1024> text{};

  static constexpr std::array<std::int32_t, kMostAbsent> no_ranks() noexcept {
    std::array<std::int32_t, kMostAbsent> ranks{};
    ranks.fill(-1);
    return ranks;
  }
};
static_assert(sizeof(CollectiveMessage) <= p2p::Channel::kMaxMessage);

}  // namespace weft::detail

namespace weft::p2p {

template <>
inline constexpr bool kHasNoPadding<detail::CollectiveMessage> =
    std::has_unique_object_representations_v<detail::Signature>&&
        std::has_unique_object_representations_v<detail::CollectiveRule> &&
    sizeof(detail::Choices) == detail::Choices::kMostRules * sizeof(detail::CollectiveRule) +
                                   9 * sizeof(double) &&
    sizeof(detail::CollectiveMessage) ==
        8 * sizeof(std::uint32_t) + 3 * sizeof(std::uint64_t) + sizeof(MemoryRef) +
            sizeof(detail::Signature) + sizeof(detail::CollectiveMessage::absent) +
            sizeof(detail::Choices) + sizeof(detail::CollectiveMessage::text);

}  // namespace weft::p2p
