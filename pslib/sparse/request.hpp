// What a worker and a server of a sparse table send each other, and how it lies in their slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace weft::pslib {

constexpr std::size_t whole_lines(std::size_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

/// In front of a request, a line of its own.
struct RequestHead {
  std::uint64_t pushed = 0;     ///< rows with gradients
  std::uint64_t looked_up = 0;  ///< rows asked for
  std::uint64_t base = 0;       ///< the version that the server had last answered with
  std::uint8_t commits = 0;     ///< the call's push is whole with this request
  std::uint8_t is_last = 0;     ///< of its call
};

/// Whether a request with room for `rows` rows each way can have that head. Any bytes may be given.
constexpr bool makes_sense(const RequestHead& head, std::size_t rows) noexcept {
  return head.pushed <= rows && head.looked_up <= rows && head.commits <= 1 && head.is_last <= 1;
}

/// In front of an answer, whose rows follow in the order in which they were asked for.
struct AnswerHead {
  std::uint64_t version = 0;
  std::uint64_t lost = 0;  ///< 1 + the rank of a worker whose push will never come; 0: none
};

/// A request is its head, ids to push, ids to look up, gradients as WireRows; each with room for
/// `rows` of them, on lines of its own. A view of memory; the same on both sides.
template <typename Byte>
class RequestParts {
 public:
  template <typename T>
  using Part = std::conditional_t<std::is_const_v<Byte>, const T, T>;

  RequestParts(Byte* at, std::size_t rows) noexcept : at_(at), ids_(whole_lines(rows * 8)) {}

  Part<RequestHead>& head() const noexcept { return *part<RequestHead>(0); }
  Part<std::uint64_t>* pushed() const noexcept { return part<std::uint64_t>(kHead); }
  Part<std::uint64_t>* looked_up() const noexcept { return part<std::uint64_t>(kHead + ids_); }
  Byte* gradients() const noexcept { return at_ + kHead + 2 * ids_; }

 private:
  static constexpr std::size_t kHead = 64;
  static_assert(sizeof(RequestHead) <= kHead);

  template <typename T>
  Part<T>* part(std::size_t offset) const noexcept {
    return reinterpret_cast<Part<T>*>(at_ + offset);
  }

  Byte* at_;
  std::size_t ids_;
};

/// With room for `rows` rows, whose gradients take `row_bytes` in all.
constexpr std::size_t request_bytes(std::size_t rows, std::size_t row_bytes) noexcept {
  return 64 + 2 * whole_lines(rows * 8) + whole_lines(row_bytes);
}

inline constexpr std::size_t kAnswerRows = 64;  // where they begin

/// With room for rows that take `row_bytes` in all.
constexpr std::size_t answer_bytes(std::size_t row_bytes) noexcept {
  return kAnswerRows + whole_lines(row_bytes);
}

}  // namespace weft::pslib
