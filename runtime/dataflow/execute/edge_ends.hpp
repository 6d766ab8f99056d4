// The two ends of an edge, whatever the way of its tensors.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runtime/world/services.hpp"
#include "weft/partition.hpp"
#include "weft/slot.hpp"
#include "weft/world.hpp"

namespace weft::dataflow {

/// A thread waits for it until an end can go on.
using Awaited = std::variant<Slot*, Request*, PublishedReader*, weft::detail::Condition*>;

/// The costs of an end.
struct EndCosts {
  std::string slot;  ///< by which the world's report has the end; empty: it does not
  Role role = Role::puts;
  TransferCounters further;  ///< what the world's report does not count
};

/// One thread at a time, one tensor at a time.
class SendEnd {
 public:
  virtual ~SendEnd() = default;
  /// Begins to send. The tensor is lent until it has been sent.
  virtual void start(const Tensor& tensor) noexcept = 0;
  /// True if finish() would return at once; never blocks.
  virtual bool is_sent() noexcept = 0;
  virtual Status finish(Deadline deadline) noexcept = 0;
  /// To be awaited while a tensor is under way.
  virtual Awaited awaited() noexcept = 0;
  /// While nothing is under way.
  virtual EndCosts costs() const = 0;
};

class ReceiveEnd {
 public:
  virtual ~ReceiveEnd() = default;
  /// True if take() would return at once, or only read the tensor; never blocks.
  virtual bool is_there() noexcept = 0;
  virtual Result<Tensor> take(Deadline deadline) noexcept = 0;
  /// The tensor that was taken is no longer read.
  virtual void release() noexcept = 0;
  /// To be awaited for the next tensor.
  virtual Awaited awaited() noexcept = 0;
  /// While nothing is under way.
  virtual EndCosts costs() const = 0;
};

/// An edge of the plan, and the name of what its two ends share.
struct EdgePlace {
  std::size_t index = 0;
  const Edge& edge;
  std::string name;  ///< at most 200 bytes
};

/// The way of tensors between two ranks. Outlives its ends.
class Way {
 public:
  virtual ~Way() = default;
  /// Makes what the edge's other end attaches to. Called for all edges of this rank, at either end,
  /// before the first of the two below. Waits for no other rank.
  virtual void expose(const EdgePlace& place) = 0;
  virtual std::unique_ptr<SendEnd> send_end(const EdgePlace& place, Deadline deadline) = 0;
  virtual std::unique_ptr<ReceiveEnd> receive_end(const EdgePlace& place, Deadline deadline) = 0;
};

/// By slots: static edges by put, dynamic ones by announcement and read.
std::unique_ptr<Way> make_slot_way(World& world);

class Publications;
/// Viewed edges: by views of this rank's publications, and of other ranks'.
std::unique_ptr<Way> make_view_way(World& world, const Plan& plan, const std::string& executor,
                                   Publications& publications);

/// All edges: by an exchange of its own between all ranks, each of which must call this. A tensor
/// of static shape costs a request and a write. Throws Error: as Rendezvous::open; bad_argument,
/// on each rank, for more edges between two ranks than requests that can wait.
std::unique_ptr<Way> make_rendezvous_way(World& world, const std::string& executor,
                                         const Plan& plan, Deadline deadline);

/// This rank's ends, by edge; null where it has none.
struct Ends {
  std::vector<std::unique_ptr<SendEnd>> sends;
  std::vector<std::unique_ptr<ReceiveEnd>> receives;
};

}  // namespace weft::dataflow
