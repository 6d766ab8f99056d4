// The messages between a worker and a server of a sparse table, and their layout in slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace weft::pslib {

constexpr std::size_t whole_lines(std::size_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

/// Head of a request, on its own cache line.
struct RequestHead {
  std::uint64_t pushed = 0;     ///< rows with gradients
  std::uint64_t looked_up = 0;  ///< rows requested
  std::uint64_t base = 0;       ///< version of the server's last answer
  std::uint8_t commits = 0;     ///< this request completes the call's push
  std::uint8_t is_last = 0;     ///< last request of its call
};

/// True if the head is valid for requests with room for `rows` rows of each kind. Accepts any
/// bytes.
constexpr bool makes_sense(const RequestHead& head, std::size_t rows) noexcept {
  return head.pushed <= rows && head.looked_up <= rows && head.commits <= 1 && head.is_last <= 1;
}

/// Head of an answer; the rows follow in the order in which they were requested.
struct AnswerHead {
  std::uint64_t version = 0;
  std::uint64_t lost = 0;  ///< 1 + the rank of a worker whose push will never come; 0: none
};

inline constexpr std::size_t kRequestIds = 64;  // offset of the ids in a request
static_assert(sizeof(RequestHead) <= kRequestIds);

/// Parts of a request: head, ids to push, ids to look up, gradients as WireRows. Each begins on a
/// cache line behind the one before, so that a request is the beginning of its slot. A view of
/// memory, equal on both sides.
template <typename Byte>
class RequestParts {
 public:
  template <typename T>
  using Part = std::conditional_t<std::is_const_v<Byte>, const T, T>;

  RequestParts(Byte* at, std::size_t pushed, std::size_t looked_up) noexcept
      : at_(at),
        looked_up_(kRequestIds + whole_lines(pushed * 8)),
        gradients_(looked_up_ + whole_lines(looked_up * 8)) {}

  Part<RequestHead>& head() const noexcept { return *part<RequestHead>(0); }
  Part<std::uint64_t>* pushed() const noexcept { return part<std::uint64_t>(kRequestIds); }
  Part<std::uint64_t>* looked_up() const noexcept { return part<std::uint64_t>(looked_up_); }
  Byte* gradients() const noexcept { return at_ + gradients_; }

 private:
  template <typename T>
  Part<T>* part(std::size_t offset) const noexcept {
    return reinterpret_cast<Part<T>*>(at_ + offset);
  }

  Byte* at_;
  std::size_t looked_up_;
  std::size_t gradients_;
};

/// Size of a request for `pushed` rows, whose gradients take `row_bytes` in all, and `looked_up`
/// rows.
constexpr std::size_t request_bytes(std::size_t pushed, std::size_t looked_up,
                                    std::size_t row_bytes) noexcept {
  return kRequestIds + whole_lines(pushed * 8) + whole_lines(looked_up * 8) +
         whole_lines(row_bytes);
}

inline constexpr std::size_t kAnswerRows = 64;  // offset of the rows

/// Size of an answer whose rows take `row_bytes` in all.
constexpr std::size_t answer_bytes(std::size_t row_bytes) noexcept {
  return kAnswerRows + whole_lines(row_bytes);
}

}  // namespace weft::pslib
