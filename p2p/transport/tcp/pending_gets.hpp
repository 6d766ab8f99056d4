// The gets that were asked for by one connection and not answered yet.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "p2p/transport/get.hpp"

namespace weft::p2p::tcp {

/// Thread-safe. Guards, in a get's own fields, `number` and `left`.
class PendingGets {
 public:
  /// Whether another get may be asked for. A cancelled get is answered all the same: a caller that
  /// cancels again and again must not fill the connection.
  bool has_room() const noexcept;
  /// Numbers the get and keeps it until end() or cancel(). Throws std::bad_alloc.
  void add(Get& get);
  /// Its answers are dropped from now on. False: it had ended.
  bool cancel(Get& get) noexcept;
  /// Null: it was cancelled.
  Get* find(std::uint64_t number) noexcept;
  /// One request of the get was answered, with all of its memory if `whole`. The get is over with
  /// its last one, and may be gone then.
  void answered(std::uint64_t number, bool whole) noexcept;

 private:
  static constexpr std::uint32_t kMostUnwanted = 8;

  mutable std::mutex mutex_;
  std::vector<Get*> gets_;
  std::uint32_t next_ = 0;
  std::uint32_t unwanted_ = 0;  ///< requests of cancelled gets, not answered yet
};

}  // namespace weft::p2p::tcp
