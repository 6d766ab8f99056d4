#include "p2p/transport/tcp/silence.hpp"

#include <algorithm>

namespace weft::p2p::tcp {
namespace {

using std::chrono::nanoseconds;

/// Beside twice the silence that there was when a rail was closed: a kernel asks again after at
/// most as long as it has asked already.
constexpr std::chrono::milliseconds kLeastAfterClose{200};
/// Packets of the peer that came this many calls, or round trips, ago still show that a rail works:
/// less than any patience, so that rails that are cut together don't vouch for each other.
constexpr int kLately = 2;

bool is_heard(const RailSign& rail, nanoseconds since_last) noexcept {
  return rail.last_heard <= kLately * std::max(since_last, rail.round_trip);
}

}  // namespace

bool SilenceJudge::is_path_lost(std::span<const RailSign> rails, bool was_closed) {
  if (!was_closed) {
    when_closed_.reset();
    return false;
  }
  nanoseconds shortest = nanoseconds::max();
  nanoseconds longest{};
  for (std::size_t i = 0; i < rails.size(); ++i) {
    if (!rails[i].up) continue;
    shortest = std::min(shortest, silences_[i].all);
    longest = std::max(longest, silences_[i].all);
  }
  if (!when_closed_) when_closed_ = longest;
  return shortest != nanoseconds::max() && shortest >= 2 * *when_closed_ + kLeastAfterClose;
}

SilenceJudge::Verdict SilenceJudge::judge(std::span<const RailSign> rails, bool was_closed,
                                          nanoseconds since_last, nanoseconds patience) {
  silences_.resize(rails.size());
  bool any_silent = false;
  bool any_works = false;
  for (std::size_t i = 0; i < rails.size(); ++i) {
    const RailSign& rail = rails[i];
    const bool silent = rail.up && rail.awaits_answer && rail.last_heard >= since_last;
    silences_[i].all = silent ? silences_[i].all + since_last : nanoseconds{};
    any_silent = any_silent || silent;
    any_works = any_works || (rail.up && !silent && is_heard(rail, since_last));
  }
  Verdict verdict;
  for (std::size_t i = 0; i < rails.size(); ++i) {
    Silence& silence = silences_[i];
    if (silence.all == nanoseconds{}) {
      silence.counted = {};
      if (any_silent && rails[i].up && !rails[i].awaits_answer && !is_heard(rails[i], since_last))
        verdict.ask.push_back(i);
      continue;
    }
    if (!any_works) continue;
    silence.counted += since_last;
    const nanoseconds when_none_worked = silence.all - silence.counted;
    if (silence.counted < std::max(patience, 4 * rails[i].round_trip) + when_none_worked) continue;
    verdict.lost = i;
    verdict.silent = silence.counted;
  }
  verdict.path_lost = !verdict.lost && is_path_lost(rails, was_closed);
  return verdict;
}

}  // namespace weft::p2p::tcp
