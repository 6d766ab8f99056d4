// A snapshot of a store's rows, written out while the store goes on.
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

/// The rows lie in chunks, which the reader reads in order. Before a row of an unread chunk is
/// changed, the row is copied; at most `most_kept` copies exist, and the writer waits for the
/// reader when there are that many. Ids and counters are copied when the cut is made. One thread
/// changes the store and calls keep(); another one reads and calls everything else.
class RowCut {
 public:
  static constexpr std::size_t kChunk = 1024;  ///< rows

  /// The store's data besides the chunks, by row number; `places` as in RowStore.
  struct Book {
    std::vector<std::uint64_t> ids;
    std::vector<std::uint32_t> places;
    std::vector<std::uint32_t> lookups;
    std::vector<std::uint64_t> last_use;
  };

  /// `chunks` of kChunk rows of `width` f32 each must stay in place until the cut is over. Throws
  /// std::bad_alloc.
  RowCut(Book book, std::vector<const float*> chunks, std::size_t width, std::size_t most_kept);

  const Book& book() const noexcept { return book_; }
  std::size_t width() const noexcept { return width_; }
  std::size_t chunks() const noexcept { return chunks_.size(); }

  /// Call before a row is changed. Throws std::bad_alloc.
  void keep(std::uint32_t place);
  /// Reads the next chunk as of the cut into `to`, which holds kChunk * width() f32. Unoccupied
  /// places have undefined contents.
  void read_next(float* to) noexcept;
  /// Ends the cut: nothing more is read.
  void end() noexcept;
  bool is_over() const noexcept { return read_.load(std::memory_order_acquire) >= chunks_.size(); }
  /// Most copies at one time.
  std::size_t kept_at_most() const noexcept { return kept_at_most_; }

 private:
  struct Copies {
    std::vector<std::uint16_t> number = std::vector<std::uint16_t>(kChunk);  // 1 + index; 0: none
    std::vector<float> rows;
  };

  void read_up_to(std::size_t chunk) noexcept;

  const Book book_;
  const std::vector<const float*> chunks_;
  const std::size_t width_;
  const std::size_t most_kept_;
  std::atomic<std::size_t> read_{0};  // chunks
  std::mutex mutex_;                  // guards all below, and rows of unread chunks without copies
  std::condition_variable room_;
  std::vector<std::unique_ptr<Copies>> copies_;  // by chunk
  std::size_t kept_ = 0;
  std::size_t kept_at_most_ = 0;
};

}  // namespace weft::pslib
