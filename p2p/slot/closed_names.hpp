// Which slots a rank closed last, for who asks for one of them too late.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace weft::p2p {

/// The last kMost names; older ones are forgotten. Allocates nothing. Thread-safety: none.
class ClosedNames {
 public:
  static constexpr std::size_t kMost = 64;

  void add(std::string name) noexcept { names_[next_++ % kMost] = std::move(name); }
  bool holds(std::string_view name) const noexcept {
    return !name.empty() && std::ranges::find(names_, name) != names_.end();
  }

 private:
  std::array<std::string, kMost> names_;
  std::size_t next_ = 0;
};

}  // namespace weft::p2p
