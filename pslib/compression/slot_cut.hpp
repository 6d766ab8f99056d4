// A part of a flat slot, as runs, and where it lies in a view of the runs alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/published_slot.hpp"

namespace weft::pslib {

/// Runs of a flat slot, and where their elements lie in a view of the runs alone. Runs begin and
/// end on cache lines; those with a small gap between them are read as one.
class SlotCut {
 public:
  /// Cuts a slot of `elements` elements of `width` bytes.
  SlotCut(std::int64_t elements, std::size_t width);

  /// Adds a range behind all that were added before.
  void add(std::int64_t first, std::int64_t count);
  std::span<const SlotRun> runs() const noexcept { return runs_; }
  /// Where element `element` lies in `viewed`, a view of the whole slot or of the runs alone.
  std::int64_t place(const Tensor& viewed, std::int64_t element) const noexcept {
    return is_whole(viewed) ? element : place(element);
  }
  /// In a view of the runs alone.
  std::int64_t place(std::int64_t element) const noexcept;
  bool is_whole(const Tensor& viewed) const noexcept {
    return viewed.shape().elements() == elements_;
  }

 private:
  std::int64_t elements_;
  std::int64_t line_;  ///< elements
  std::vector<SlotRun> runs_;
  std::vector<std::int64_t> places_;  ///< of the runs' beginnings
};

}  // namespace weft::pslib
