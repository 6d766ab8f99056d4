// One version on its way to a subscriber.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pslib/publication/run_cursor.hpp"
#include "pslib/publication/snapshots.hpp"
#include "pslib/publication/wire.hpp"

namespace weft::pslib {

/// Sends a head, then runs from where they lie, for as long as the lease holds. One thread at a
/// time.
class Answer {
 public:
  /// `blocked`: the socket takes no more now. `more`: it would, but others have their turn.
  /// `revoked`: what was sent counts for nothing, and the subscriber knows. `broken`: errno says
  /// why.
  enum class State : std::uint8_t { done, blocked, more, revoked, broken };

  /// A head and what follows it, and nothing else.
  explicit Answer(std::vector<std::byte> bytes) noexcept : plain_(std::move(bytes)) {}
  Answer(Snapshots& snapshots, Snapshots::Offer offer);
  Answer(Answer&& other) noexcept;
  Answer& operator=(Answer&& other) noexcept = delete;
  ~Answer();

  State send(int socket);

  /// Of the tensors' values; else neither of the two below says anything.
  bool is_of_values() const noexcept { return snapshots_ != nullptr; }
  bool is_full() const noexcept { return from_ == 0; }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  /// What one call of the kernel took; below 0: it took nothing, errno says why.
  ssize_t send_plain(int socket) noexcept;
  ssize_t send_part(int socket) noexcept;
  void revoke();

  Snapshots* snapshots_ = nullptr;  ///< null: `plain_` is all
  Snapshots::Lease lease_{};
  std::uint64_t from_ = 0;
  std::uint64_t bytes_ = 0;
  RunCursor cursor_;
  std::vector<std::byte> plain_;  ///< goes out before anything else, from `plain_sent_` on
  std::size_t plain_sent_ = 0;
  std::uint32_t part_ = 0;       ///< bytes of the part that is being sent
  std::size_t part_left_ = 0;    ///< of them
  std::size_t length_left_ = 0;  ///< bytes of the part's own length
  bool is_revoked_ = false;
};

/// A head and what follows it.
std::vector<std::byte> record(const wire::Head& head, std::span<const std::byte> rest = {});

}  // namespace weft::pslib
