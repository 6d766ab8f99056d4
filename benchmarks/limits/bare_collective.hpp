// The limit of collectives: the same loads and stores by hand, without a library.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "benchmarks/harness/collective.hpp"
#include "benchmarks/harness/limit.hpp"

namespace weft::bench {

/// Memory that all ranks map for reading and writing: a memfd of rank 0, opened by the others
/// through /proc.
class BareTensors {
 public:
  static constexpr std::size_t kPayload = 2048;  ///< largest tensor sent together with its flag

  /// Collective. `in_bytes` and `out_bytes` are the sizes of each rank's tensors.
  BareTensors(World& world, const SharedMemory& meeting, std::size_t in_bytes,
              std::size_t out_bytes);
  ~BareTensors();
  BareTensors(const BareTensors&) = delete;
  BareTensors& operator=(const BareTensors&) = delete;

  std::byte* in(int rank) const noexcept { return rank_memory(rank) + sizeof(Head); }
  std::byte* out(int rank) const noexcept { return in(rank) + in_bytes_; }

  /// Barriers: before and after the ranks access each other's tensors.
  void enter() noexcept { pass(&Head::entered); }
  void leave() noexcept { pass(&Head::left); }
  /// Small tensors, in one hop: after give(), await_given() waits for another rank's tensor, and
  /// given() returns it.
  void give(const std::byte* data, std::size_t bytes) noexcept;
  const std::byte* given(int rank) const noexcept;
  void await_given(int rank) noexcept;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

 private:
  struct Entry {
    std::atomic<std::uint64_t> sequence;
    std::byte payload[kPayload - sizeof(std::uint64_t)];
  };
  struct Head {
    FlagLine entered;
    FlagLine left;
    Entry entries[2];
  };
  std::byte* rank_memory(int rank) const noexcept {
    return memory_ + static_cast<std::size_t>(rank) * stride_;
  }
  Head& head(int rank) const noexcept { return *reinterpret_cast<Head*>(rank_memory(rank)); }
  void pass(FlagLine Head::*line) noexcept;

  const int rank_;
  const int size_;
  const std::size_t in_bytes_;
  const std::size_t stride_;
  const Idle idle_;
  std::byte* memory_ = nullptr;
  std::uint64_t passed_[2] = {0, 0};
  std::uint64_t given_ = 0;
};

/// Runs one f32 collective by hand. `streamed`: large results bypass the cache.
void run_bare(std::string_view name, BareTensors& tensors, std::size_t elements, bool streamed);

}  // namespace weft::bench
