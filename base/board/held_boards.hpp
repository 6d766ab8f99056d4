// The boards of other ranks, kept so that they outlive their ranks.
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "base/board/board_view.hpp"
#include "base/os/fd.hpp"

namespace weft::board {

/// A board is there as long as a process has its descriptor. Thread-safety: any thread.
class HeldBoards {
 public:
  void keep(int rank, os::Fd file);
  /// The rank has left in order: nobody will ask.
  void drop(int rank);
  /// None, if this process holds none of that rank. Throws Error(system) for what is no board.
  std::optional<BoardView> of(int rank) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, os::Fd> files_;
};

}  // namespace weft::board
