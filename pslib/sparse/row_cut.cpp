#include "pslib/sparse/row_cut.hpp"

#include <algorithm>
#include <utility>

namespace weft::pslib {

RowCut::RowCut(Book book, std::vector<const float*> chunks, std::size_t width,
               std::size_t most_kept)
    : book_(std::move(book)),
      chunks_(std::move(chunks)),
      width_(width),
      most_kept_(most_kept),
      copies_(chunks_.size()) {}

void RowCut::keep(std::uint32_t place) {
  const std::size_t chunk = place / kChunk;
  const std::size_t row = place % kChunk;
  if (chunk >= chunks_.size()) return;  // chunk added after the cut
  const auto is_read = [&] { return chunk < read_.load(std::memory_order_acquire); };
  if (is_read()) return;
  std::unique_lock lock(mutex_);
  if (copies_[chunk] && copies_[chunk]->number[row] != 0) return;
  room_.wait(lock, [&] { return is_read() || kept_ < most_kept_; });
  if (is_read()) return;
  if (!copies_[chunk]) copies_[chunk] = std::make_unique<Copies>();
  Copies& copies = *copies_[chunk];
  const float* const from = chunks_[chunk] + row * width_;
  copies.rows.insert(copies.rows.end(), from, from + width_);
  copies.number[row] = static_cast<std::uint16_t>(copies.rows.size() / width_);
  kept_at_most_ = std::max(kept_at_most_, ++kept_);
}

void RowCut::read_next(float* to) noexcept {
  const std::size_t chunk = read_.load(std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    const Copies* const copies = copies_[chunk].get();
    if (copies == nullptr) {
      std::copy_n(chunks_[chunk], kChunk * width_, to);
    } else {
      for (std::size_t row = 0; row < kChunk; ++row) {
        const std::size_t number = copies->number[row];
        const float* const from = number == 0 ? chunks_[chunk] + row * width_
                                              : copies->rows.data() + (number - 1) * width_;
        std::copy_n(from, width_, to + row * width_);
      }
    }
    read_up_to(chunk + 1);
  }
  room_.notify_one();
}

void RowCut::end() noexcept {
  {
    const std::lock_guard lock(mutex_);
    read_up_to(chunks_.size());
  }
  room_.notify_one();
}

void RowCut::read_up_to(std::size_t chunk) noexcept {
  for (std::size_t i = read_.load(std::memory_order_relaxed); i < chunk; ++i) {
    if (copies_[i]) kept_ -= copies_[i]->rows.size() / width_;
    copies_[i].reset();
  }
  read_.store(chunk, std::memory_order_release);
}

}  // namespace weft::pslib
