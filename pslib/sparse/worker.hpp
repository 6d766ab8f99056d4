// A worker's side of a sparse table: its requests, and what comes back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pslib/sparse/batch.hpp"
#include "pslib/sparse/description.hpp"
#include "pslib/sparse/shard.hpp"
#include "weft/world.hpp"

namespace weft::pslib {

/// What one call asks for; the user's memory.
struct SparseCall {
  const char* operation = "";
  bool pushes = false;
  bool looks_up = false;
  std::span<const std::uint64_t> pushed{};
  std::span<const float> gradients{};
  std::span<const std::uint64_t> ids{};
  std::span<float> rows{};
};

/// Thread-safety: one thread at a time.
class SparseWorker {
 public:
  /// Exposes a request slot for every server. Throws Error as World::expose does. `table` must
  /// outlive the worker.
  SparseWorker(World& world, const SparseDescription& table);
  /// `own`: the shard of this rank, which works inside its worker's calls; null: there is none.
  void attach(World& world, SparseShard* own, Deadline deadline);

  /// A call with a lookup ends with all its rows, one without when its last request is out. After
  /// a timeout the same call goes on where this one stopped.
  Status run(const SparseCall& call, Deadline deadline) noexcept;
  /// Waits for the answers to a call without a lookup.
  Status settle(Deadline deadline) noexcept;

  std::uint64_t version() const noexcept;

 private:
  struct Server {
    int rank = 0;
    PublishedSlot requests;
    PublishedReader answers;
    bool is_asked = false;      // a request is out
    std::size_t pushed = 0;     // rows of the call that were sent with gradients
    std::size_t asked = 0;      // rows of the call that were asked for, those of `taken` included
    std::size_t taken = 0;      // rows of the call that came
    bool has_finished = false;  // the call's last request is out
    std::uint64_t version = 0;  // of its last answer
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
  Status name_the_lost() const noexcept;
  bool is_asked() const noexcept;

  World& world_;
  const SparseDescription& table_;
  const std::size_t dim_;
  const WireRows wire_;
  const std::size_t room_;  // rows of a request
  SparseShard* own_ = nullptr;
  std::vector<Server> servers_;
  std::vector<PublishedReader*> awaited_;
  Batch pushed_;
  Batch looked_up_;
  std::vector<char> is_written_;  // of a request's gradients
  std::vector<float> sums_;       // the same where they are not sent as f32
  SparseCall interrupted_;        // the call that has begun and not ended
  std::uint64_t calls_ = 0;       // begun
  int lost_ = -1;                 // a worker without whom no update is made any more
};

}  // namespace weft::pslib
