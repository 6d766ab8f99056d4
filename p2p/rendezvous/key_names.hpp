// Numbers for the names that one side of a conversation has used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft::p2p::rendezvous {

/// Names are numbered from 0 in the order of their first use and stay. Looking one up allocates
/// nothing. Thread-safety: the caller's.
class KeyNames {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  std::uint32_t find(std::string_view name) const noexcept {
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? kNone : found->second;
  }
  std::uint32_t add(std::string_view name) {
    const auto [at, is_new] =
        numbers_.try_emplace(std::string(name), static_cast<std::uint32_t>(names_.size()));
    if (is_new) names_.push_back(at->first);
    return at->second;
  }
  std::uint32_t find_or_add(std::string_view name) {
    const std::uint32_t number = find(name);
    return number == kNone ? add(name) : number;
  }
  /// Requires a number that was given.
  std::string_view name(std::uint32_t number) const noexcept { return names_[number]; }
  std::size_t size() const noexcept { return names_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
  std::vector<std::string_view> names_;  ///< of the map's keys, which don't move
};

}  // namespace weft::p2p::rendezvous
