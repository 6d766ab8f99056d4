#include "runtime/health/agreement_wire.hpp"

#include <array>
#include <cstring>

#include "p2p/transport/control_message.hpp"

namespace weft::detail {
namespace {

struct Head {
  p2p::MessageType type = p2p::MessageType::agreement;
  std::uint8_t step = 0;
  std::uint8_t sets = 0;  ///< bit i: set i of sets_of() follows
  std::uint16_t members = 0;
  std::uint64_t group = 0;
  std::uint64_t ballot = 0;
  std::uint64_t accepted = 0;
};

std::size_t bytes_of(std::size_t members) noexcept { return (members + 7) / 8; }

/// The sets of a message in the order in which they travel.
template <typename Message>
auto sets_of(Message& message) {
  return std::array{&message.survivors, &message.gone, &message.ended};
}

std::optional<Head> head_of(std::span<const std::byte> bytes) noexcept {
  Head head;
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  return head;
}

}  // namespace

std::vector<std::byte> encode(std::uint64_t group, const AgreementMessage& message) {
  Head head{.step = static_cast<std::uint8_t>(message.step),
            .group = group,
            .ballot = message.ballot,
            .accepted = message.accepted};
  std::vector<std::byte> bytes(sizeof head);
  for (std::size_t i = 0; const Places* set : sets_of(message)) {
    if (!set->empty()) {
      head.sets = static_cast<std::uint8_t>(head.sets | 1U << i);
      head.members = static_cast<std::uint16_t>(set->size());
      const std::size_t begin = bytes.size();
      bytes.resize(begin + bytes_of(set->size()));
      for (std::size_t m = 0; m < set->size(); ++m)
        if ((*set)[m]) bytes[begin + m / 8] |= std::byte{1} << m % 8;
    }
    ++i;
  }
  std::memcpy(bytes.data(), &head, sizeof head);
  return bytes;
}

std::optional<std::uint64_t> group_of(std::span<const std::byte> bytes) noexcept {
  const auto head = head_of(bytes);
  return head ? std::optional(head->group) : std::nullopt;
}

std::optional<AgreementMessage> decode(std::span<const std::byte> bytes, std::size_t members) {
  const auto head = head_of(bytes);
  if (!head || head->step >= static_cast<std::uint8_t>(AgreementMessage::Step::count_) ||
      head->sets >= 8 || (head->sets != 0 && head->members != members))
    return std::nullopt;
  AgreementMessage message;
  message.step = static_cast<AgreementMessage::Step>(head->step);
  message.ballot = head->ballot;
  message.accepted = head->accepted;
  bytes = bytes.subspan(sizeof *head);
  for (std::size_t i = 0; Places * set : sets_of(message)) {
    if ((head->sets >> i++ & 1U) == 0) continue;
    if (bytes.size() < bytes_of(members)) return std::nullopt;
    set->resize(members);
    for (std::size_t m = 0; m < members; ++m)
      (*set)[m] = (bytes[m / 8] >> m % 8 & std::byte{1}) != std::byte{0};
    bytes = bytes.subspan(bytes_of(members));
  }
  return bytes.empty() ? std::optional(std::move(message)) : std::nullopt;
}

}  // namespace weft::detail
