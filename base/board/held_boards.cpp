#include "base/board/held_boards.hpp"

#include <utility>

namespace weft::board {

void HeldBoards::keep(int rank, os::Fd file) {
  const std::lock_guard lock(mutex_);
  files_.insert_or_assign(rank, std::move(file));
}

void HeldBoards::drop(int rank) {
  const std::lock_guard lock(mutex_);
  files_.erase(rank);
}

std::optional<BoardView> HeldBoards::of(int rank) const {
  const std::lock_guard lock(mutex_);
  const auto held = files_.find(rank);
  if (held == files_.end()) return std::nullopt;
  return BoardView::open(held->second);
}

}  // namespace weft::board
