// A worker's side of a table: its gradients, its copy of the parameters, and the shards' regions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pslib/dense/description.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// Version n of the gradients (the first is the initial parameters) leads to version n + 1 of every
/// shard's region (the first tells only where it lies); nobody goes on before.
/// Thread-safety: one thread at a time.
class Worker {
 public:
  /// Exposes the gradients. Throws Error as World::expose and World::allocate do.
  Worker(World& world, const Description& table);
  /// Attaches to every server's region.
  void attach(World& world, const Description& table, Deadline deadline);

  /// Flat, laid out as Layout says.
  const Tensor& gradients() const noexcept { return buffer_; }
  const Tensor& parameters() const noexcept { return parameters_; }

  /// Version of the gradients that was published last; 0: none.
  std::uint64_t pushed() const noexcept { return pushed_; }
  /// Version of the gradients that all regions are known to follow from.
  std::uint64_t updated() const noexcept { return updated_; }

  /// The first push: `parameters` as if they were gradients when this is the first worker.
  Status push_initial(bool is_first) noexcept;
  /// After the initial version has come back.
  void clear_gradients() noexcept;
  Status push() noexcept;
  // After an error the next call goes on where this one stopped.
  Status pull(Deadline deadline) noexcept;
  Status wait_updated(Deadline deadline) noexcept;
  /// A piece where it lies.
  Result<std::span<const std::byte>> view(const Piece& piece) const noexcept;

 private:
  struct Server {
    int rank = 0;
    RemoteSlot slot;
    Arrival viewed;  // below its slot, as it must go first; empty unless waited for
    const std::byte* region = nullptr;
    std::vector<SlotRun> runs;
  };

  Status check_pushed(const char* operation) const noexcept;
  Status reach_pushed() noexcept;

  Slot slot_;
  Tensor buffer_;
  Tensor parameters_;
  std::vector<Server> servers_;
  std::uint64_t pushed_ = 0;
  std::uint64_t updated_ = 0;
  std::size_t servers_done_ = 0;  // of the update that is being pulled or waited for
};

}  // namespace weft::pslib
