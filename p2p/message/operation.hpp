// A send or receive that did not end within its call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/atomic_stage.hpp"
#include "p2p/memory/arena.hpp"
#include "p2p/transport/cuda/device_copy.hpp"
#include "p2p/transport/reading.hpp"
#include "weft/deadline.hpp"
#include "weft/message.hpp"

namespace weft::p2p::message {
struct Arrived;
class IncomingRing;
}  // namespace weft::p2p::message

namespace weft::detail {

struct MessageOperation {
  enum class Stage : std::uint8_t {
    free,
    posted,   ///< a receive that no message has matched
    reading,  ///< a receive that reads the payload from the sender's memory
    copying,  ///< a receive whose payload is here, and goes on to a GPU
    queued,   ///< a send that is not in the ring
    offered,  ///< a send that the receiver reads from this rank's memory
    ended
  };

  AtomicStage<Stage> stage = Stage::free;
  bool detached = false;  ///< its request is gone: free the operation when it ends
  int peer = -1;          ///< kAnySource is possible for a receive
  Tag tag = kAnyTag;
  Tensor tensor{};
  p2p::OwnedBlock staged{};  ///< of a send: a copy that peers can read, if they can't read `tensor`
  std::uint64_t order = 0;   ///< of a posted receive: its place among all
  std::uint64_t awaited = 0;  ///< of an offer: the value that acknowledges it
  std::uint32_t ack = 0;      ///< of an offer: index of its acknowledgement word
  MessageInfo info{};
  Status status{};
  // For a receive that is reading.
  p2p::message::IncomingRing* ring = nullptr;
  p2p::message::Arrived* arrived = nullptr;
  std::unique_ptr<p2p::Reading> reading{};
  bool started = false;
  Status broken{};      ///< the read has failed; why, and whose doing it was, may not be known yet
  Deadline known_by{};  ///< when not to wait for that any longer
  // For a receive into a GPU, whose `tensor` stands in for that until the message is here.
  Tensor on_gpu{};
  std::optional<p2p::cuda::DeviceCopy> copy{};
  MessageOperation* previous = nullptr;  ///< in the list of its stage
  MessageOperation* next = nullptr;
};

}  // namespace weft::detail

namespace weft::p2p::message {

using Operation = detail::MessageOperation;

/// Operations in the order in which they were added. An operation is in at most one list.
class OperationList {
 public:
  bool empty() const noexcept { return first_ == nullptr; }
  Operation* first() const noexcept { return first_; }

  void add(Operation& operation) noexcept {
    operation.previous = last_;
    operation.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &operation;
    last_ = &operation;
  }
  void remove(Operation& operation) noexcept {
    (operation.previous != nullptr ? operation.previous->next : first_) = operation.next;
    (operation.next != nullptr ? operation.next->previous : last_) = operation.previous;
    operation.previous = operation.next = nullptr;
  }

 private:
  Operation* first_ = nullptr;
  Operation* last_ = nullptr;
};

}  // namespace weft::p2p::message
