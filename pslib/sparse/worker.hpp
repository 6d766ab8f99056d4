// A worker's side of a sparse table: its requests, and the answers to them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pslib/sparse/batch.hpp"
#include "pslib/sparse/description.hpp"
#include "pslib/sparse/shard.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// The arguments of one call; the memory is the application's.
struct SparseCall {
  const char* operation = "";
  bool pushes = false;
  bool looks_up = false;
  std::span<const std::uint64_t> pushed{};
  std::span<const float> gradients{};
  std::span<const std::uint64_t> ids{};
  std::span<float> rows{};
};

/// Not thread-safe.
class SparseWorker {
 public:
  /// Exposes a request slot per server. `table` must outlive the worker. Throws Error as
  /// World::expose does.
  SparseWorker(World& world, const SparseDescription& table);
  /// `own` is this rank's shard, which works inside its worker's calls; null if there is none.
  void attach(World& world, SparseShard* own, Deadline deadline);

  /// Returns when all requested rows have arrived or, for a call without lookup, when its last
  /// request is sent. After a timeout, the same call resumes where this one stopped.
  Status run(const SparseCall& call, Deadline deadline) noexcept;
  /// Waits for the answers to a call without lookup.
  Status settle(const char* operation, Deadline deadline) noexcept;

  std::uint64_t version() const noexcept;

 private:
  struct Server {
    int rank = 0;
    PublishedSlot requests;
    PublishedReader answers;
    bool is_asked = false;      // a request is unanswered
    std::size_t pushed = 0;     // rows of the call whose gradients were sent
    std::size_t asked = 0;      // rows of the call that were requested, including `taken`
    std::size_t taken = 0;      // rows of the call that arrived
    bool has_finished = false;  // the call's last request was sent
    std::uint64_t version = 0;  // version of its last answer
  };

  Status check(const SparseCall& call) const noexcept;
  void begin(const SparseCall& call);
  Status go_on(const SparseCall& call, Deadline deadline);
  Status send(std::size_t server, const SparseCall& call, Deadline deadline);
  void write_gradients(std::size_t server, const SparseCall& call, std::size_t count,
                       std::byte* to);
  void add_gradients(std::size_t server, const SparseCall& call, std::span<float> to);
  Status await_one(const SparseCall& call, Deadline deadline);
  Status work_as_server(std::size_t worker, Deadline deadline);
  void read_rows(std::size_t server, const std::byte* answer, const SparseCall& call);
  Status name_the_lost(const char* operation) const noexcept;
  bool is_asked() const noexcept;

  World& world_;
  const SparseDescription& table_;
  const std::size_t dim_;
  const WireRows wire_;
  const std::size_t room_;  // rows per request
  SparseShard* own_ = nullptr;
  std::vector<Server> servers_;
  std::vector<PublishedReader*> awaited_;
  Batch pushed_;
  Batch looked_up_;
  std::vector<char> is_written_;  // by row of a request: its gradient was written
  std::vector<float> sums_;       // scratch for gradients not sent as f32
  SparseCall interrupted_;        // the call that began and has not ended
  std::uint64_t calls_ = 0;       // calls begun
  int lost_ = -1;                 // a worker whose absence prevents further updates
};

}  // namespace weft::pslib
