#include "runtime/bootstrap/token/oob_records.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace weft::bootstrap {
namespace {

constexpr std::byte kTable{1};
constexpr std::byte kFailed{2};
constexpr std::size_t kMostText = 900;

using Length = std::uint32_t;

struct FailureHead {
  std::byte kind = kFailed;
  std::uint8_t code = 0;  ///< a Code
  std::uint8_t unused[2]{};
  std::int32_t peer = -1;
};
static_assert(sizeof(FailureHead) + kMostText <= kMostRecord);

template <typename T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

std::size_t most_table(int size) noexcept {
  return static_cast<std::size_t>(size) * (sizeof(Length) + OobAllgather::kMaxContribution) +
         p2p::kSealOverhead;
}

std::vector<std::byte> table_record(const p2p::MessageKey& key) {
  std::vector<std::byte> record(1 + key.size(), kTable);
  std::copy(key.begin(), key.end(), record.begin() + 1);
  return record;
}

std::vector<std::byte> failure_record(const ErrorDetail& failure) {
  std::vector<std::byte> record;
  append(record,
         FailureHead{.code = static_cast<std::uint8_t>(failure.code), .peer = failure.peer});
  const auto text = std::as_bytes(std::span(failure.message));
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(text.size(), kMostText));
  record.insert(record.end(), text.begin(), end);
  return record;
}

std::optional<OobRecord> parse_record(std::span<const std::byte> record) {
  if (record.empty()) return std::nullopt;
  OobRecord parsed;
  if (record[0] == kTable && record.size() == 1 + parsed.key.size()) {
    std::copy(record.begin() + 1, record.end(), parsed.key.begin());
    return parsed;
  }
  FailureHead head;
  if (record[0] != kFailed || record.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, record.data(), sizeof head);
  const auto text = record.subspan(sizeof head);
  parsed.failure =
      ErrorDetail{.code = head.code == static_cast<std::uint8_t>(Code::timeout) ? Code::timeout
                                                                                : Code::bootstrap,
                  .operation = "join",
                  .message = std::string(reinterpret_cast<const char*>(text.data()), text.size()),
                  .peer = head.peer};
  return parsed;
}

std::vector<std::byte> table_of(const Contributions& words) {
  std::vector<std::byte> table;
  for (const auto& said : words) {
    append(table, static_cast<Length>(said.size()));
    table.insert(table.end(), said.begin(), said.end());
  }
  return table;
}

std::optional<Contributions> parse_table(std::span<const std::byte> table, int size) {
  Contributions words;
  for (int rank = 0; rank < size; ++rank) {
    Length length = 0;
    if (table.size() < sizeof length) return std::nullopt;
    std::memcpy(&length, table.data(), sizeof length);
    table = table.subspan(sizeof length);
    if (length > table.size()) return std::nullopt;
    words.emplace_back(table.begin(), table.begin() + static_cast<std::ptrdiff_t>(length));
    table = table.subspan(length);
  }
  if (!table.empty()) return std::nullopt;
  return words;
}

}  // namespace weft::bootstrap
