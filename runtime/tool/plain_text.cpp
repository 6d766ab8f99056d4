#include "runtime/tool/plain_text.hpp"

#include <cstddef>

#include "base/printable.hpp"

namespace weft::tool {

std::string plain(std::string_view text) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t bytes = printable_bytes(text);
    if (bytes == 0)
      clean += '?';
    else
      clean += text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return clean;
}

}  // namespace weft::tool
