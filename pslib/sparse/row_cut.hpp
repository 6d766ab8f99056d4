// The rows of a store as they were at one moment, to be written while the store goes on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace weft::pslib {

/// Rows lie in chunks, each at a place; the reader goes through the chunks in order. A row of a
/// chunk that it has not read yet is copied before it is written; of these copies there are never
/// more than `most_kept`, above which the writer waits for the reader. Ids and what is counted of
/// rows are copied at once.
/// Thread-safety: one thread writes the store and calls keep(), another reads and calls the rest.
class RowCut {
 public:
  static constexpr std::size_t kChunk = 1024;  ///< rows

  /// What the store has beside the chunks, by row number; `places` as RowStore has them.
  struct Book {
    std::vector<std::uint64_t> ids;
    std::vector<std::uint32_t> places;
    std::vector<std::uint32_t> lookups;
    std::vector<std::uint64_t> last_use;
  };

  /// `chunks` of kChunk rows of `width` f32 stay where they are until the cut is over. Throws
  /// std::bad_alloc.
  RowCut(Book book, std::vector<const float*> chunks, std::size_t width, std::size_t most_kept);

  const Book& book() const noexcept { return book_; }
  std::size_t width() const noexcept { return width_; }
  std::size_t chunks() const noexcept { return chunks_.size(); }

  /// Before a row is written. Throws std::bad_alloc.
  void keep(std::uint32_t place);
  /// The next chunk as it was; `to` holds kChunk * width(). Places that held no row may hold
  /// anything.
  void read_next(float* to) noexcept;
  /// Nothing more is read.
  void end() noexcept;
  bool is_over() const noexcept { return read_.load(std::memory_order_acquire) >= chunks_.size(); }
  /// Rows that were copied, and the most copies at a time.
  std::size_t kept_in_all() const noexcept { return kept_in_all_; }
  std::size_t kept_at_most() const noexcept { return kept_at_most_; }

 private:
  struct Copies {
    std::vector<std::uint16_t> number = std::vector<std::uint16_t>(kChunk);  // 1 + which; 0: none
    std::vector<float> rows;
  };

  void read_up_to(std::size_t chunk) noexcept;

  const Book book_;
  const std::vector<const float*> chunks_;
  const std::size_t width_;
  const std::size_t most_kept_;
  std::atomic<std::size_t> read_{0};  // chunks
  std::mutex mutex_;                  // guards what follows, and unread chunks' rows without copies
  std::condition_variable room_;
  std::vector<std::unique_ptr<Copies>> copies_;  // by chunk
  std::size_t kept_ = 0;
  std::size_t kept_in_all_ = 0;
  std::size_t kept_at_most_ = 0;
};

}  // namespace weft::pslib
