#include "runtime/health/agreement_wire.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "p2p/transport/channel.hpp"
#include "p2p/transport/control_message.hpp"

namespace weft::detail {
namespace {

struct Head {
  std::uint64_t group = 0;
  std::uint64_t ballot = 0;
  std::uint64_t accepted = 0;
  std::uint8_t step = 0;
  std::uint8_t sets = 0;  ///< bit i: set i of sets_of() follows
  std::uint16_t members = 0;
  std::uint16_t views = 0;
  std::uint8_t more = 0;
  std::uint8_t reserved = 0;
};

struct PartHead {
  p2p::MessageType type = p2p::MessageType::agreement;
  std::uint16_t number = 0;
  std::uint16_t parts = 0;
};

constexpr std::size_t kPartBytes = p2p::Channel::kMaxMessage - sizeof(PartHead);

/// How a set travels.
enum class Form : std::uint8_t {
  bits,  ///< a bit for each member
  runs   ///< the lengths of runs, in 7 bits each byte: members outside, inside, outside, ...
};

std::size_t bytes_of(std::size_t members) noexcept { return (members + 7) / 8; }

constexpr std::size_t kSets = 4;

constexpr std::size_t kMostBytes =
    sizeof(Head) + (kSets + 3 * kMostViews) * (1 + (kMostMembers + 7) / 8);
constexpr std::size_t kMostParts = (kMostBytes + kPartBytes - 1) / kPartBytes;

/// The sets of a message in the order in which they travel; its views follow.
template <typename Message>
auto sets_of(Message& message) {
  return std::array{&message.members, &message.survivors, &message.gone, &message.ended};
}

std::optional<Head> head_of(std::span<const std::byte> bytes) noexcept {
  Head head;
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  return head;
}

void put_number(std::vector<std::byte>& bytes, std::size_t number) {
  for (; number >= 0x80; number >>= 7U)
    bytes.push_back(static_cast<std::byte>(number & 0x7f) | std::byte{0x80});
  bytes.push_back(static_cast<std::byte>(number));
}

/// nullopt if `bytes` ends within the number, or if no set needs so large a one.
std::optional<std::size_t> take_number(std::span<const std::byte>& bytes) noexcept {
  std::size_t number = 0;
  for (unsigned shift = 0; shift < 21 && !bytes.empty(); shift += 7) {
    const auto byte = std::to_integer<std::size_t>(bytes.front());
    bytes = bytes.subspan(1);
    number |= (byte & 0x7f) << shift;
    if (byte < 0x80) return number;
  }
  return std::nullopt;
}

void put_set(std::vector<std::byte>& bytes, const Places& set) {
  std::vector<std::byte> runs{static_cast<std::byte>(Form::runs)};
  bool inside = false;
  for (std::size_t m = 0; m < set.size(); inside = !inside) {
    const std::size_t begin = m;
    while (m < set.size() && set[m] == inside) ++m;
    put_number(runs, m - begin);
    if (runs.size() > 1 + bytes_of(set.size())) break;
  }
  if (runs.size() <= 1 + bytes_of(set.size())) {
    bytes.insert(bytes.end(), runs.begin(), runs.end());
    return;
  }
  bytes.push_back(static_cast<std::byte>(Form::bits));
  const std::size_t begin = bytes.size();
  bytes.resize(begin + bytes_of(set.size()));
  for (std::size_t m = 0; m < set.size(); ++m)
    if (set[m]) bytes[begin + m / 8] |= std::byte{1} << m % 8;
}

/// Takes a set from the front of `bytes`; false if there is none.
bool take_set(std::span<const std::byte>& bytes, Places& set, std::size_t members) {
  if (bytes.empty()) return false;
  const auto form = static_cast<Form>(bytes.front());
  bytes = bytes.subspan(1);
  set.assign(members, false);
  if (form == Form::bits) {
    if (bytes.size() < bytes_of(members)) return false;
    for (std::size_t m = 0; m < members; ++m)
      set[m] = (bytes[m / 8] >> m % 8 & std::byte{1}) != std::byte{0};
    bytes = bytes.subspan(bytes_of(members));
    return true;
  }
  if (form != Form::runs) return false;
  bool inside = false;
  for (std::size_t m = 0; m < members; inside = !inside) {
    const auto run = take_number(bytes);
    if (!run || *run > members - m || (*run == 0 && m > 0)) return false;
    const auto begin = set.begin() + static_cast<std::ptrdiff_t>(m);
    std::fill(begin, begin + static_cast<std::ptrdiff_t>(*run), inside);
    m += *run;
  }
  return true;
}

}  // namespace

std::vector<std::byte> encode(std::uint64_t group, const AgreementMessage& message) {
  Head head{.group = group,
            .ballot = message.ballot,
            .accepted = message.accepted,
            .step = static_cast<std::uint8_t>(message.step),
            .views = static_cast<std::uint16_t>(message.views.size()),
            .more = static_cast<std::uint8_t>(message.more ? 1 : 0)};
  std::vector<std::byte> bytes(sizeof head);
  for (std::size_t i = 0; const Places* set : sets_of(message)) {
    if (!set->empty()) {
      head.sets = static_cast<std::uint8_t>(head.sets | 1U << i);
      head.members = static_cast<std::uint16_t>(set->size());
      put_set(bytes, *set);
    }
    ++i;
  }
  for (const AgreementView& view : message.views) {
    head.members = static_cast<std::uint16_t>(view.members.size());
    put_set(bytes, view.members);
    put_set(bytes, view.gone);
    put_set(bytes, view.accusers);
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
      head->sets >= 1U << kSets || head->views > kMostViews || head->more > 1 ||
      ((head->sets != 0 || head->views != 0) && head->members != members))
    return std::nullopt;
  AgreementMessage message;
  message.step = static_cast<AgreementMessage::Step>(head->step);
  message.ballot = head->ballot;
  message.accepted = head->accepted;
  message.more = head->more != 0;
  bytes = bytes.subspan(sizeof *head);
  for (std::size_t i = 0; Places * set : sets_of(message))
    if ((head->sets >> i++ & 1U) != 0 && !take_set(bytes, *set, members)) return std::nullopt;
  message.views.resize(head->views);
  for (AgreementView& view : message.views)
    if (!take_set(bytes, view.members, members) || !take_set(bytes, view.gone, members) ||
        !take_set(bytes, view.accusers, members))
      return std::nullopt;
  return bytes.empty() ? std::optional(std::move(message)) : std::nullopt;
}

std::vector<std::vector<std::byte>> cut(std::span<const std::byte> message) {
  const std::size_t count =
      std::max<std::size_t>(1, (message.size() + kPartBytes - 1) / kPartBytes);
  std::vector<std::vector<std::byte>> parts;
  for (std::size_t i = 0; i < count; ++i) {
    const PartHead head{.number = static_cast<std::uint16_t>(i),
                        .parts = static_cast<std::uint16_t>(count)};
    const auto some =
        message.subspan(i * kPartBytes, std::min(kPartBytes, message.size() - i * kPartBytes));
    std::vector<std::byte>& part = parts.emplace_back(sizeof head + some.size());
    std::memcpy(part.data(), &head, sizeof head);
    std::copy(some.begin(), some.end(), part.begin() + sizeof head);
  }
  return parts;
}

std::optional<std::vector<std::byte>> JoinedParts::add(std::span<const std::byte> part) {
  PartHead head;
  const bool has_head = part.size() >= sizeof head;
  if (has_head) std::memcpy(&head, part.data(), sizeof head);
  if (has_head && head.number == 0) {
    bytes_.clear();
    next_ = 0;
    parts_ = head.parts;
  }
  if (!has_head || head.number != next_ || head.number >= head.parts || head.parts != parts_ ||
      head.parts > kMostParts) {
    *this = {};
    return std::nullopt;
  }
  part = part.subspan(sizeof head);
  bytes_.insert(bytes_.end(), part.begin(), part.end());
  if (++next_ < parts_) return std::nullopt;
  parts_ = 0;
  return std::exchange(bytes_, {});
}

}  // namespace weft::detail
