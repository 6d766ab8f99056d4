#include "pslib/replication/replica_words.hpp"

#include <algorithm>

namespace weft::pslib {
namespace {

constexpr std::uint64_t kHadState = 1;
constexpr std::uint64_t kHasState = 2;
constexpr std::uint64_t kOffers = 4;
constexpr std::uint64_t kNeedsState = 8;

}  // namespace

void ReplicaWords::store(const ReplicaMessage& message, std::span<std::uint64_t> to) noexcept {
  to[kEpoch] = message.epoch;
  to[kFlags] = (message.had_state ? kHadState : 0) | (message.has_state ? kHasState : 0) |
               (message.offers ? kOffers : 0) | (message.needs_state ? kNeedsState : 0);
  to[kNumberThen] = message.number_then;
  to[kLed] = message.led;
  to[kNumber] = message.number;
  to[kRecord] = message.record.number;
  std::ranges::fill(to.subspan(kPushes), 0);
  for (const RecordedPush& push : message.record.pushes)
    to[kPushes + push.worker] = 2 * push.sequence + (push.is_dropped ? 1 : 0);
}

ReplicaMessage ReplicaWords::load(std::span<const std::uint64_t> from) {
  ReplicaMessage message;
  message.epoch = from[kEpoch];
  message.had_state = (from[kFlags] & kHadState) != 0;
  message.has_state = (from[kFlags] & kHasState) != 0;
  message.offers = (from[kFlags] & kOffers) != 0;
  message.needs_state = (from[kFlags] & kNeedsState) != 0;
  message.number_then = from[kNumberThen];
  message.led = from[kLed];
  message.number = from[kNumber];
  message.record.number = from[kRecord];
  const auto pushes = from.subspan(kPushes);
  for (std::size_t worker = 0; worker < pushes.size(); ++worker)
    if (pushes[worker] != 0)
      message.record.pushes.push_back({worker, pushes[worker] / 2, pushes[worker] % 2 != 0});
  return message;
}

}  // namespace weft::pslib
