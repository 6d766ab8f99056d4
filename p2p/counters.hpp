// A slot's counters, written where the work is posted and read by anybody.
#pragma once

#include <atomic>
#include <cstdint>

#include "weft/report.hpp"

namespace weft::p2p {

/// One count with one writer at a time: no locked instruction on the data path.
class Counter {
 public:
  void add(std::uint64_t amount) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct EdgeCounters {
  Counter transfers;
  Counter bytes_moved;
  Counter bytes_copied;
  Counter work_requests;
  Counter credit_writes;
  Counter control_messages;
  Counter registrations;

  TransferCounters read() const noexcept {
    return {transfers.get(),     bytes_moved.get(),      bytes_copied.get(), work_requests.get(),
            credit_writes.get(), control_messages.get(), registrations.get()};
  }
};

}  // namespace weft::p2p
