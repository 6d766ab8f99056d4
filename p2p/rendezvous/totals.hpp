// Sums over all sessions of a rendezvous, for its waits and for the progress thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace weft::p2p::rendezvous {

struct Totals {
  std::atomic<std::int64_t> offered{0};    ///< tensors not fetched yet
  std::atomic<std::int64_t> attention{0};  ///< items that need turns without a waiting thread
  std::atomic<std::int64_t> held_up{0};    ///< sessions with a full fabric or puts under way
};

/// One session's share of the totals. The destructor takes it back. Not thread-safe.
class TotalsShare {
 public:
  explicit TotalsShare(Totals& totals) noexcept : totals_(totals) {}
  ~TotalsShare() { set(0, 0, 0); }
  TotalsShare(const TotalsShare&) = delete;
  TotalsShare& operator=(const TotalsShare&) = delete;

  void set(std::int64_t offered, std::int64_t attention, std::int64_t held_up) noexcept {
    replace(totals_.offered, offered_, offered);
    replace(totals_.attention, attention_, attention);
    replace(totals_.held_up, held_up_, held_up);
  }

 private:
  static void replace(std::atomic<std::int64_t>& total, std::int64_t& share,
                      std::int64_t now) noexcept {
    if (now != share) total += now - std::exchange(share, now);
  }

  Totals& totals_;
  std::int64_t offered_ = 0;
  std::int64_t attention_ = 0;
  std::int64_t held_up_ = 0;
};

}  // namespace weft::p2p::rendezvous
