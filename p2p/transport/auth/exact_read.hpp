// Reading an exact number of bytes of a connection, over as many calls as it takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace weft::p2p {

/// The record of an unproven connection: all the memory that it gets.
class ExactRead {
 public:
  static constexpr std::size_t kMost = 96;
  enum class State : std::uint8_t { complete, incomplete, closed, failed };

  /// Takes what is there, no byte more than `size` in all. failed: errno says why.
  State read(int fd, std::size_t size) noexcept;
  /// The beginning of what was read; the next read goes on behind it. Requires State::complete.
  template <typename T>
  T peek() const noexcept {
    static_assert(sizeof(T) <= kMost);
    T value;
    std::memcpy(&value, bytes_.data(), sizeof value);
    return value;
  }
  /// Returns the bytes read; the next read begins anew. Requires State::complete.
  template <typename T>
  T take() noexcept {
    have_ = 0;
    return peek<T>();
  }

 private:
  std::size_t have_ = 0;
  std::array<std::byte, kMost> bytes_;
};

/// Sends a short record over a connection whose buffer has room for it; false: errno says why not.
bool send_record(int fd, std::span<const std::byte> record) noexcept;
template <typename Record>
bool send_record(int fd, const Record& record) noexcept {
  static_assert(std::has_unique_object_representations_v<Record>);
  return send_record(fd, std::as_bytes(std::span(&record, 1)));
}

}  // namespace weft::p2p
