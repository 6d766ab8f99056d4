// The two ends of an edge, whatever the way of its tensors.
#pragma once

#include <memory>
#include <string>

#include "weft/partition.hpp"
#include "weft/slot.hpp"
#include "weft/world.hpp"

namespace weft::dataflow {

/// One thread at a time, one tensor at a time.
class SendEnd {
 public:
  virtual ~SendEnd() = default;
  /// Begins to send. The tensor is lent until it has been sent.
  virtual void start(const Tensor& tensor) noexcept = 0;
  /// True if finish() would return at once; never blocks.
  virtual bool is_sent() noexcept = 0;
  virtual Status finish(Deadline deadline) noexcept = 0;
  /// The operation under way, to wait for.
  virtual Request& awaited() noexcept = 0;
};

class ReceiveEnd {
 public:
  virtual ~ReceiveEnd() = default;
  /// True if take() would return at once, or only read the tensor; never blocks.
  virtual bool is_there() noexcept = 0;
  virtual Result<Tensor> take(Deadline deadline) noexcept = 0;
  /// The tensor that was taken is no longer read.
  virtual void release() noexcept = 0;
  /// The slot to wait for.
  virtual Slot& awaited() noexcept = 0;
};

/// The way of an edge's tensors between two ranks.
class Way {
 public:
  virtual ~Way() = default;
  /// Called on all ranks for all their receives before the first attach().
  virtual std::unique_ptr<ReceiveEnd> expose(World& world, const Edge& edge,
                                             const std::string& name) = 0;
  virtual std::unique_ptr<SendEnd> attach(World& world, const Edge& edge, const std::string& name,
                                          Deadline deadline) = 0;
};

/// By slots: static edges by put, dynamic ones by announcement and read.
std::unique_ptr<Way> make_slot_way();

}  // namespace weft::dataflow
