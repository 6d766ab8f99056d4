// What travels between rank 0 and another rank once they have met.
//
//   rank      -> rank 0   its words
//   rank 0    -> rank     `table`: a key; then, for every rank alike, all words sealed with that
//   key
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

inline constexpr std::size_t kMostRecord = 1024;  ///< of what rank 0 seals for one rank
/// What the sealed words of a job may take.
std::size_t most_table(int size) noexcept;

std::vector<std::byte> table_record(const p2p::MessageKey& key);
std::vector<std::byte> failure_record(const ErrorDetail& failure);

/// Of a record of rank 0; nullopt: it is malformed. A failure comes with what rank 0 said of it.
struct OobRecord {
  std::optional<ErrorDetail> failure;
  p2p::MessageKey key{};
};
std::optional<OobRecord> parse_record(std::span<const std::byte> record);

std::vector<std::byte> table_of(const Contributions& words);
/// nullopt unless it is the words of `size` ranks and nothing else.
std::optional<Contributions> parse_table(std::span<const std::byte> table, int size);

}  // namespace weft::bootstrap
