// The queue of tokens whose memory weft no longer needs.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

namespace weft::c {

/// Tokens that are promised now and pushed later. Pushing needs no memory and so never fails.
/// Thread-safety: any thread.
class UnusedQueue {
 public:
  /// Makes room for a token. Throws std::bad_alloc.
  void promise();
  /// Gives the room back: no token will come.
  void withdraw() noexcept;
  /// The token of a promise.
  void push(void* token) noexcept;
  /// Takes a token; false if there is none.
  bool next(void*& token) noexcept;

 private:
  std::mutex mutex_;
  std::vector<void*> tokens_;  ///< its capacity has room for every promise
  std::size_t promised_ = 0;
};

}  // namespace weft::c
