// Combinations of two integers or booleans, as function objects.
#pragma once

#include <cstdint>
#include <type_traits>

namespace weft::kernels {

template <typename T>
struct WrappingSum {
  using U = std::make_unsigned_t<T>;
  T operator()(T a, T b) const { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); }
};
template <typename T>
struct WrappingProd {
  // U is at least unsigned: narrower types would be promoted to int, whose product may overflow.
  using U = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
  T operator()(T a, T b) const { return static_cast<T>(static_cast<U>(a) * static_cast<U>(b)); }
};
template <typename T>
struct Lesser {
  T operator()(T a, T b) const { return a < b ? a : b; }
};
template <typename T>
struct Greater {
  T operator()(T a, T b) const { return a > b ? a : b; }
};
template <typename T>
struct BitAnd {
  T operator()(T a, T b) const { return static_cast<T>(a & b); }
};
template <typename T>
struct BitOr {
  T operator()(T a, T b) const { return static_cast<T>(a | b); }
};
template <typename T>
struct BitXor {
  T operator()(T a, T b) const { return static_cast<T>(a ^ b); }
};

// Booleans: any byte but 0 is true; results are 0 or 1.
struct LogicalAnd {
  std::uint8_t operator()(std::uint8_t a, std::uint8_t b) const { return a != 0 && b != 0; }
};
struct LogicalOr {
  std::uint8_t operator()(std::uint8_t a, std::uint8_t b) const { return (a | b) != 0; }
};
struct LogicalXor {
  std::uint8_t operator()(std::uint8_t a, std::uint8_t b) const { return (a != 0) != (b != 0); }
};

}  // namespace weft::kernels
