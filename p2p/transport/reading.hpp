// Gets with what they need until they have ended, and those that were given up before.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "p2p/progress/waiter.hpp"
#include "p2p/transport/get.hpp"
#include "weft/tensor.hpp"

namespace weft::p2p {

/// A get with all that is lent to it.
struct Reading {
  Get get;
  std::vector<GetWork> pieces;
  Tensor tensor;                         ///< whose memory it is read into, where there is a handle
  OwnedBlock landing;                    ///< memory of its own
  std::shared_ptr<const void> memory{};  ///< that it is read into, where another keeps that too
  OwnedBlock words;
  /// It is read into memory that nothing above keeps.
  bool is_bare = false;
};

/// Waits for the end of a get that was started; nullopt: it is not over at the deadline.
template <typename About>
std::optional<Status> await_get(const Waiter& waiter, Get& get, Deadline deadline,
                                const About& about) noexcept {
  std::optional<Status> end = get.poll();
  if (end) return end;
  const auto ended = [&] {
    end = get.poll();
    return end.has_value();
  };
  (void)waiter.wait(
      ended, [] { return false; }, deadline, about);
  return end;
}

/// Readings whose callers have given up while a NIC may still write: they keep what was lent.
/// Thread-safe.
class Strays {
 public:
  /// The get's channel must outlive the last look. `owner`: a number that is never used again.
  void keep(std::unique_ptr<Reading> reading, std::uint64_t owner) noexcept;
  /// Whether any is the owner's. Lets go of those that have ended.
  bool hold(std::uint64_t owner) noexcept {
    return count_.load(std::memory_order_acquire) != 0 && look_for(owner);
  }
  /// The owner goes, and perhaps memory that nothing keeps: fails the paths of those which are read
  /// into such.
  void cut_off(std::uint64_t owner) noexcept;

 private:
  struct Stray {
    std::unique_ptr<Reading> reading;
    std::uint64_t owner;
  };
  bool look_for(std::uint64_t owner) noexcept;

  std::mutex mutex_;
  std::vector<Stray> strays_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace weft::p2p
