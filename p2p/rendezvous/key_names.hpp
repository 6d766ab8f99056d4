// A numbering of the key names that one side of a session has used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::p2p::rendezvous {

/// Numbers names from 0 in the order of their first use. Once `kept` names exist, a new name may
/// take over the number of a name that has not been used recently: keys that contain the training
/// step would otherwise accumulate. Looking up a name allocates nothing. Not thread-safe.
class KeyNames {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  struct Found {
    std::uint32_t number = kNone;
    bool replaces = false;  ///< the number belonged to another name until now
  };

  std::uint32_t find(std::string_view name) const noexcept {
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? kNone : found->second;
  }
  /// Returns the number of `name`; a repeated lookup counts as a use. A new name gets a new number
  /// while fewer than `kept` exist. After that it takes over the number of an unused name for which
  /// `idle(number)` is true, or a new number if 64 looks find none. Throws std::bad_alloc; then
  /// nothing has changed.
  template <typename Idle>
  Found find_or_add(std::string_view name, std::size_t kept, Idle&& idle) {
    if (const std::uint32_t number = find(name); number != kNone) {
      used_[number] = true;
      return {number, false};
    }
    if (const std::uint32_t old = names_.size() < kept ? kNone : unused(idle); old != kNone) {
      std::string key(name);
      auto entry = numbers_.extract(numbers_.find(names_[old]));
      entry.key() = std::move(key);
      names_[old] = numbers_.insert(std::move(entry)).position->first;
      return {old, true};
    }
    const auto number = static_cast<std::uint32_t>(names_.size());
    if (names_.size() == names_.capacity()) names_.reserve(2 * names_.size() + 1);
    used_.reserve(names_.capacity());
    names_.push_back(numbers_.try_emplace(std::string(name), number).first->first);
    used_.push_back(false);
    return {number, false};
  }
  /// Requires a number returned by find() or find_or_add().
  std::string_view name(std::uint32_t number) const noexcept { return names_[number]; }
  std::size_t size() const noexcept { return names_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };
  static constexpr int kLooks = 64;

  /// Clock algorithm: the hand passes over a recently used name once and clears its mark.
  template <typename Idle>
  std::uint32_t unused(Idle&& idle) {
    for (int look = 0; look < kLooks; ++look) {
      const auto number = static_cast<std::uint32_t>(hand_);
      hand_ = (hand_ + 1) % names_.size();
      if (used_[number])
        used_[number] = false;
      else if (idle(number))
        return number;
    }
    return kNone;
  }

  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
  std::vector<std::string_view> names_;  ///< views of the map's keys, which don't move
  std::vector<bool> used_;
  std::size_t hand_ = 0;
};

}  // namespace weft::p2p::rendezvous
