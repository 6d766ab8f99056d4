// A replica's message as words of a slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pslib/replication/replica.hpp"

namespace weft::pslib {

struct ReplicaWords {
  /// Highest sequence number of a push that fits into its word.
  static constexpr std::uint64_t kMostSequence = std::uint64_t{1} << 62;

  /// Words of one shard's message with `workers` workers.
  static constexpr std::size_t count(std::size_t workers) noexcept { return kPushes + workers; }

  static void store(const ReplicaMessage& message, std::span<std::uint64_t> to) noexcept;
  static ReplicaMessage load(std::span<const std::uint64_t> from);

 private:
  static constexpr std::size_t kEpoch = 0;
  static constexpr std::size_t kFlags = 1;
  static constexpr std::size_t kNumberThen = 2;
  static constexpr std::size_t kLed = 3;
  static constexpr std::size_t kNumber = 4;
  static constexpr std::size_t kRecord = 5;
  /// For each worker its push in the record: twice its sequence number, plus 1 if it is dropped.
  static constexpr std::size_t kPushes = 6;
};

}  // namespace weft::pslib
