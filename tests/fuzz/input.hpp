// A fuzzer's input, read value by value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

namespace weft::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) noexcept
      : rest_(reinterpret_cast<const std::byte*>(data), size) {}

  /// The next value; zeros where the input ends.
  template <typename T>
  T take() noexcept {
    T value{};
    const std::size_t size = std::min(sizeof value, rest_.size());
    if (size != 0) std::memcpy(static_cast<void*>(&value), rest_.data(), size);
    rest_ = rest_.subspan(size);
    return value;
  }
  std::span<const std::byte> rest() const noexcept { return rest_; }
  std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(rest_.data()), rest_.size()};
  }

 private:
  std::span<const std::byte> rest_;
};

/// A condition that must hold for every input.
inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace weft::fuzz
