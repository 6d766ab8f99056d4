// Memory that puts need until they have ended, besides their sources.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "p2p/transport/verbs/regions.hpp"

namespace weft::p2p::verbs {

/// Packed copies and leases of adopted memory. Thread-safe.
class KeptPuts {
 public:
  struct Put {
    std::uint64_t posted = 0;
    OwnedBlock packed;
    std::vector<Regions::Lease> leases;
  };

  void keep(Put&& put) {
    const std::lock_guard lock(mutex_);
    puts_.push_back(std::move(put));
    any_.store(true, std::memory_order_release);
  }
  /// Frees what belongs to puts for which `has_ended(posted)` holds.
  template <typename HasEnded>
  void release(const HasEnded& has_ended) noexcept {
    if (!any_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    std::erase_if(puts_, [&](const Put& put) { return has_ended(put.posted); });
    any_.store(!puts_.empty(), std::memory_order_release);
  }

 private:
  std::mutex mutex_;
  std::deque<Put> puts_;
  std::atomic<bool> any_{false};
};

}  // namespace weft::p2p::verbs
