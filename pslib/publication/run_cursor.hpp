// Iterates over the bytes of row runs in iovec pieces.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "pslib/publication/layout.hpp"

namespace weft::pslib {

/// Address of each tensor of a layout.
using TensorPlaces = std::vector<std::byte*>;

/// A position in the bytes of runs. Does not own the memory.
class RunCursor {
 public:
  RunCursor() noexcept = default;
  /// Requires layout->valid(runs).
  RunCursor(std::shared_ptr<const PublishedLayout> layout, TensorPlaces places, RowRuns runs)
      : layout_(std::move(layout)), places_(std::move(places)), runs_(std::move(runs)) {
    left_ = layout_->bytes(runs_);
  }

  std::size_t left() const noexcept { return left_; }

  /// Fills `pieces` with the next bytes, at most `most` in total. Returns the number of pieces.
  std::size_t next(std::span<iovec> pieces, std::size_t most) const noexcept {
    std::size_t count = 0;
    std::size_t in_run = in_run_;
    for (std::size_t at = at_; at < runs_.size() && count < pieces.size() && most > 0; ++at) {
      const RowRun& run = runs_[at];
      const std::size_t bytes = std::min(layout_->bytes(run) - in_run, most);
      pieces[count++] = {places_[run.tensor] + layout_->offset(run) + in_run, bytes};
      most -= bytes;
      in_run = 0;
    }
    return count;
  }

  /// Requires bytes <= left().
  void advance(std::size_t bytes) noexcept {
    left_ -= bytes;
    while (bytes > 0) {
      const std::size_t rest = layout_->bytes(runs_[at_]) - in_run_;
      if (bytes < rest) {
        in_run_ += bytes;
        return;
      }
      bytes -= rest;
      in_run_ = 0;
      ++at_;
    }
  }

 private:
  std::shared_ptr<const PublishedLayout> layout_;
  TensorPlaces places_;
  RowRuns runs_;
  std::size_t left_ = 0;
  std::size_t at_ = 0;      ///< index of the current run
  std::size_t in_run_ = 0;  ///< bytes of it that are done
};

}  // namespace weft::pslib
