// The arrivals of a slot's end that the application holds.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace weft::p2p {

/// Lets an end whose handle has gone live until the last of its arrivals has. The handle's thread.
template <typename End>
class HeldArrivals {
 public:
  void handed_out() noexcept { ++count_; }
  /// One has gone. Returns whether it was the last of an end without a handle: then take() it.
  bool last_has_gone() noexcept { return --count_ == 0 && end_ != nullptr; }
  /// The handle has gone. Whether arrivals are held still, which keep the end.
  bool keep(std::shared_ptr<End>& end) noexcept {
    if (count_ != 0) end_ = std::move(end);
    return count_ != 0;
  }
  bool is_kept() const noexcept { return end_ != nullptr; }
  std::shared_ptr<End> take() noexcept { return std::move(end_); }

 private:
  std::size_t count_ = 0;
  std::shared_ptr<End> end_;  ///< set once its handle has gone
};

}  // namespace weft::p2p
