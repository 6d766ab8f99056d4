// Texts for errors that are made where nothing may be thrown.
#pragma once

#include <fmt/format.h>

#include <new>
#include <string>
#include <utility>

namespace weft {

/// Returns the text that `make()` makes; empty without memory for it.
template <typename Make>
std::string text_or_empty(const Make& make) noexcept {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return {};
  }
}

/// As fmt::format(); empty without memory for the text.
template <typename... Args>
std::string formatted(fmt::format_string<Args...> format, Args&&... args) noexcept {
  return text_or_empty([&] { return fmt::format(format, std::forward<Args>(args)...); });
}

}  // namespace weft
