// Structs that begin with their own size: programs and libraries of different releases know
// different numbers of their fields.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include "bindings/c/call.hpp"

namespace weft::c {

/// No struct of this API is as large; a larger size is a field that was never set.
inline constexpr std::size_t kMostStruct = 65536;

/// Throws Error(bad_argument) if `size` can't be a struct's. Every struct of this API has the
/// alignment of its size, so that another number would cut a field in two.
inline void check_struct_size(const char* operation, const char* what, std::size_t size) {
  if (size < sizeof(std::size_t) || size > kMostStruct || size % alignof(std::size_t) != 0)
    throw_error(Code::bad_argument, operation,
                std::string(what) + "->struct_size is " + std::to_string(size),
                "set it to sizeof of the struct");
}

/// The struct that the caller gave, with `fields` where an older program's ends. Throws
/// Error(bad_argument) for fields that this library does not know, unless they are 0.
template <typename T>
T read_sized(const char* operation, const char* what, const T* from, T fields = {}) {
  const std::size_t size = given(operation, what, from).struct_size;
  check_struct_size(operation, what, size);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
  if (size > sizeof(T) &&
      std::any_of(bytes + sizeof(T), bytes + size, [](unsigned char byte) { return byte != 0; }))
    throw_error(Code::bad_argument, operation,
                std::string(what) + " has fields that this libweft does not know",
                "leave them 0, or run with the libweft of that weft.h");
  std::memcpy(&fields, from, std::min(size, sizeof(T)));
  return fields;
}

/// As read_sized(), where NULL stands for the defaults.
template <typename T>
T read_optional(const char* operation, const char* what, const T* from, T fields = {}) {
  return from == nullptr ? fields : read_sized(operation, what, from, fields);
}

/// Writes the fields that the caller's struct has. Fields that this library does not know become 0.
template <typename T>
void write_sized(const char* operation, const char* what, T* to, T fields) {
  const std::size_t size = given(operation, what, to).struct_size;
  check_struct_size(operation, what, size);
  fields.struct_size = size;
  std::memcpy(to, &fields, std::min(size, sizeof(T)));
  if (size > sizeof(T))
    std::memset(reinterpret_cast<unsigned char*>(to) + sizeof(T), 0, size - sizeof(T));
}

/// Element `i` of an array whose elements are as far apart as the first one's struct_size says.
template <typename T>
T* element_at(T* first, std::size_t i) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(first) + i * first->struct_size);
}

}  // namespace weft::c
