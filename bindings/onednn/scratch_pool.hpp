// Scratch memory of running kernels.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace weft::dataflow::onednn {

/// Memory that is lent to one kernel at a time. There are as many pieces as kernels ever ran at
/// once, each as large as the largest need that it met. Thread-safety: all calls.
class ScratchPool {
 public:
  struct Memory {
    struct Free {
      void operator()(std::byte* data) const noexcept { ::operator delete(data, kAlignment); }
    };
    std::unique_ptr<std::byte, Free> data;
    std::size_t bytes = 0;
  };

  /// A lent piece, which goes back at its end.
  class Piece {
   public:
    Piece(ScratchPool& pool, std::size_t bytes) : pool_(pool), memory_(pool.take(bytes)) {}
    ~Piece() { pool_.give_back(std::move(memory_)); }
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;
    /// Aligned to 64 bytes.
    std::byte* data() const noexcept { return memory_.data.get(); }

   private:
    ScratchPool& pool_;
    Memory memory_;
  };

 private:
  static constexpr std::align_val_t kAlignment{64};

  Memory take(std::size_t bytes) {
    Memory memory;
    {
      const std::lock_guard lock(mutex_);
      if (idle_.empty()) {
        // Room for it to come back without an allocation.
        idle_.reserve(++pieces_);
      } else {
        memory = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (memory.bytes >= bytes) return memory;
    memory.data.reset();  // first, so that both are never there at once
    memory.data.reset(static_cast<std::byte*>(::operator new(bytes, kAlignment)));
    memory.bytes = bytes;
    return memory;
  }
  void give_back(Memory memory) noexcept {
    const std::lock_guard lock(mutex_);
    if (idle_.size() < idle_.capacity()) idle_.push_back(std::move(memory));
  }

  std::mutex mutex_;
  std::vector<Memory> idle_;
  std::size_t pieces_ = 0;
};

}  // namespace weft::dataflow::onednn
