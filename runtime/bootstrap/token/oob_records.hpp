// The records that rank 0 and another rank exchange once they are connected.
//
//   rank      -> rank 0   its contribution
//   rank 0    -> rank     `table`: a key; then, the same for every rank, all contributions, sealed
//                         with that key
//                    or   `failed`: a code and the line that rank 0 ends with
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "p2p/transport/auth/sealed_message.hpp"
#include "runtime/bootstrap/token/oob_allgather.hpp"
#include "weft/error.hpp"

namespace weft::bootstrap {

inline constexpr std::size_t kMostRecord =
    1024;  ///< bytes of a record that rank 0 seals for one rank
/// Largest number of bytes of the sealed contributions of a job.
std::size_t most_table(int size) noexcept;

std::vector<std::byte> table_record(const p2p::MessageKey& key);
std::vector<std::byte> failure_record(const ErrorDetail& failure);

/// A record of rank 0. `failure` is set in a `failed` record and has rank 0's text; otherwise `key`
/// is set.
struct OobRecord {
  std::optional<ErrorDetail> failure;
  p2p::MessageKey key{};
};
/// Parses a record of rank 0; nullopt if it is malformed.
std::optional<OobRecord> parse_record(std::span<const std::byte> record);

std::vector<std::byte> table_of(const Contributions& words);
/// Parses the contributions of `size` ranks; nullopt if `table` holds anything else.
std::optional<Contributions> parse_table(std::span<const std::byte> table, int size);

}  // namespace weft::bootstrap
