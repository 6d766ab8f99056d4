// Reads a rank's status board, from this process or another.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/board/layout.hpp"
#include "base/board/recorder.hpp"
#include "base/os/fd.hpp"
#include "base/os/mapping.hpp"

namespace weft::board {

/// One edge as the board shows it: the words are each whole, not of one moment.
struct ShownEdge {
  EdgeState state = EdgeState::free;
  EdgeReport report;
  std::uint64_t slot = 0;
};

/// A board in mapped memory, checked once. The rank may write it meanwhile, or be dead.
/// Thread-safety: any number of threads.
class BoardView {
 public:
  /// Maps the file read-only; it may be closed afterwards. Throws Error(system) where it is no
  /// board of this version, or its sections don't lie within it.
  static BoardView open(const os::Fd& file);

  const Identity& identity() const noexcept { return *at<Identity>(SectionIndex::identity); }
  const Totals& totals() const noexcept { return *at<Totals>(SectionIndex::totals); }
  std::span<const PathEntry> paths() const noexcept;
  /// Those in use. An edge that changed hands while it was looked at is left out.
  std::vector<ShownEdge> edges() const;
  RecorderView recorder() const noexcept;

 private:
  explicit BoardView(os::Mapping memory) : memory_(std::move(memory)) {}
  void check() const;
  const Header& header() const noexcept { return *reinterpret_cast<const Header*>(memory_.data()); }
  const Section& section(SectionIndex index) const noexcept {
    return header().sections[static_cast<std::size_t>(index)];
  }
  template <typename Entry>
  const Entry* at(SectionIndex index) const noexcept {
    return reinterpret_cast<const Entry*>(memory_.data() + section(index).offset);
  }

  os::Mapping memory_;
};

}  // namespace weft::board
