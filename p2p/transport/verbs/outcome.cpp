// How puts end.
#include "p2p/transport/verbs/verbs_channel.hpp"

namespace weft::p2p::verbs {
template <typename Ask>
bool VerbsChannel::all_pairs(std::uint64_t posted, const Ask& ask) noexcept {
  const std::uint64_t pair = posted >> kPairShift;
  const std::uint64_t number = posted & ((std::uint64_t{1} << kPairShift) - 1);
  if (pair != kAllPairs) return ask(*pairs_[pair - 1], number);
  const auto ends = stripes_.find(number);
  if (!ends) return true;
  bool all = true;
  for (std::size_t i = 0; i < pairs_.size(); ++i) all = ask(*pairs_[i], (*ends)[i]) && all;
  return all;
}

bool VerbsChannel::has_ended(std::uint64_t posted) noexcept {
  return all_pairs(posted, [](QueuePair& pair, std::uint64_t request) {
    return pair.has_ended(request & ~StripeTable::kCutShort);
  });
}

bool VerbsChannel::has_succeeded(std::uint64_t posted) noexcept {
  return all_pairs(posted, [](QueuePair& pair, std::uint64_t request) {
    return (request & StripeTable::kCutShort) == 0 && pair.has_succeeded(request);
  });
}

std::optional<Status> VerbsChannel::poll_put(std::uint64_t posted) noexcept {
  if (has_succeeded(posted)) return Status{};
  // On a queue pair in error, too: a request that ended without a completion shows by the next one.
  all_pairs(posted, [](QueuePair& pair, std::uint64_t request) {
    if (!pair.has_ended(request)) pair.ask_for_completion();
    return true;
  });
  if (has_failed()) {
    // Not before the NIC has let go of the memory.
    flush();
    rank_.rails.poll_once();
    if (!has_ended(posted)) return std::nullopt;
    return has_succeeded(posted) ? Status{} : broken("put");
  }
  rank_.rails.poll();
  if (has_succeeded(posted)) return Status{};
  return std::nullopt;
}

}  // namespace weft::p2p::verbs
