// One public call that takes a deadline, and the situation in which the call needs another rank.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/weft.hpp"

namespace weft::tests {

/// One of the two ranks, while a row is set up. Rank 0 makes the call; rank 1 is stopped.
struct Side {
  World& world;
  std::string unique;       ///< for names; the same on both ranks, another for every case
  std::string token_file;   ///< for subscribers
  std::string subscribers;  ///< where they call

  bool calls() const { return world.rank() == 0; }
  std::string named(const std::string& what) const { return what + "." + unique; }
};

/// The result of the call.
struct Said {
  Status status;
  std::span<std::byte> memory;  ///< given back to the caller: must not be written
};

inline Said said(Status status) { return {std::move(status), {}}; }
inline Said said(Status status, const Tensor& tensor) {
  return {std::move(status), {tensor.data(), tensor.bytes()}};
}
template <typename T>
Said said(const Result<T>& result) {
  return {result.status(), {}};
}
template <typename T>
Said said(const Result<T>& result, const Tensor& tensor) {
  return said(result.status(), tensor);
}
/// The result of a call that throws.
template <typename Act>
Said thrown(const Act& act) {
  try {
    act();
    return {};
  } catch (const Error& error) {
    return {error.status(), {}};
  }
}

/// A row that is set up on one rank.
struct Case {
  std::function<Said(Deadline)> call{};  ///< rank 0's
  std::function<void()> part{};          ///< rank 1's part, in which it may be stopped
  std::function<void()> end{};           ///< before the case goes, with the other rank alive
};

struct Row {
  std::string call;  ///< "Class::function", and "#2" for the second of that name in its header
  std::function<Case(Side&)> make;
  bool names_peer = true;  ///< false: no single rank is at fault
  std::string how{};       ///< where a call has several rows
  bool needs_peer = true;  ///< false: it may do without rank 1, on one fabric at least

  std::string label() const { return how.empty() ? call : call + " (" + how + ")"; }
};

/// A row whose call may end before its deadline.
inline Row perhaps_alone(Row row) {
  row.needs_peer = false;
  return row;
}

std::vector<Row> slot_rows();
std::vector<Row> message_rows();
std::vector<Row> exchange_rows();
std::vector<Row> group_rows();
std::vector<Row> graph_rows();
std::vector<Row> table_rows();
std::vector<Row> variable_rows();
std::vector<Row> subscriber_rows();
std::vector<Row> all_rows();

}  // namespace weft::tests
