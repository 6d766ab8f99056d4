// A send or receive that did not end within its call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "p2p/memory/arena.hpp"
#include "p2p/transport/reading.hpp"
#include "weft/message.hpp"

namespace weft::p2p::message {
struct Arrived;
class IncomingRing;
}  // namespace weft::p2p::message

namespace weft::detail {

struct MessageOperation {
  enum class Stage : std::uint8_t {
    free,
    posted,   ///< a receive that nothing has matched
    reading,  ///< a receive whose message is read from where it lies
    queued,   ///< a send that has not left
    offered,  ///< a send that the receiver was told of
    ended
  };

  Stage stage = Stage::free;
  bool detached = false;  ///< nobody will ask for its outcome
  int peer = -1;          ///< a receive's may be kAnySource
  Tag tag = kAnyTag;
  Tensor tensor{};
  p2p::OwnedBlock staged{};   ///< a send's, where peers can't read the tensor itself
  std::uint64_t order = 0;    ///< a posted receive's
  std::uint64_t awaited = 0;  ///< an offer's: what its acknowledgement says
  std::uint32_t ack = 0;      ///< an offer's word
  MessageInfo info{};
  Status status{};
  // A receive that is reading.
  p2p::message::IncomingRing* ring = nullptr;
  p2p::message::Arrived* arrived = nullptr;
  std::unique_ptr<p2p::Reading> reading{};
  bool started = false;
  MessageOperation* previous = nullptr;  ///< in the list that the stage names
  MessageOperation* next = nullptr;
};

}  // namespace weft::detail

namespace weft::p2p::message {

using Operation = detail::MessageOperation;

/// Operations in the order in which they were added. An operation is in one list at most.
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
