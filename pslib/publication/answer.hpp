// One answer in transit to a subscriber, usually a version's values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pslib/publication/run_cursor.hpp"
#include "pslib/publication/snapshots.hpp"
#include "pslib/publication/wire.hpp"

namespace weft::pslib {

/// Sends a head, then runs directly from the buffer while the lease holds. Not thread-safe.
class Answer {
 public:
  /// `blocked`: the socket is full. `more`: the socket is not full, but other subscribers get their
  /// turn. `revoked`: the buffer was reused; the subscriber is told to discard what was sent.
  /// `broken`: see errno.
  enum class State : std::uint8_t { done, blocked, more, revoked, broken };

  /// An answer of a head and its data only.
  explicit Answer(std::vector<std::byte> bytes) noexcept : plain_(std::move(bytes)) {}
  Answer(Snapshots& snapshots, Snapshots::Offer offer);
  Answer(Answer&& other) noexcept;
  Answer& operator=(Answer&& other) noexcept = delete;
  ~Answer();

  State send(int socket);

  /// True if the answer holds tensor values; is_full() and bytes() are meaningless otherwise.
  bool is_of_values() const noexcept { return snapshots_ != nullptr; }
  bool is_full() const noexcept { return from_ == 0; }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  /// Returns the bytes sent by one system call; negative with errno if none were.
  ssize_t send_plain(int socket) noexcept;
  ssize_t send_part(int socket) noexcept;
  void revoke();

  Snapshots* snapshots_ = nullptr;  ///< null: `plain_` is everything
  Snapshots::Lease lease_{};
  std::uint64_t from_ = 0;
  std::uint64_t bytes_ = 0;
  RunCursor cursor_;
  std::vector<std::byte> plain_;  ///< sent before anything else, from `plain_sent_` on
  std::size_t plain_sent_ = 0;
  std::uint32_t part_ = 0;       ///< bytes of the part being sent
  std::size_t part_left_ = 0;    ///< unsent bytes of the part
  std::size_t length_left_ = 0;  ///< unsent bytes of the part's length field
  bool is_revoked_ = false;
};

/// The bytes of a head and its data.
std::vector<std::byte> record(const wire::Head& head, std::span<const std::byte> rest = {});

}  // namespace weft::pslib
