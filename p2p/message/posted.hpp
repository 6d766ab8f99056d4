// The posted receives that no message has matched: plain data without I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "p2p/message/operation.hpp"

namespace weft::p2p::message {

/// A message matches the receive that was posted first among those that accept it. Not thread-safe.
class PostedTable {
 public:
  explicit PostedTable(int ranks) : by_source_(static_cast<std::size_t>(ranks)) {}

  bool empty() const noexcept { return count_ == 0; }

  void add(Operation& receive) noexcept {
    receive.order = ++last_order_;
    list(receive.peer).add(receive);
    ++count_;
  }
  void remove(Operation& receive) noexcept {
    list(receive.peer).remove(receive);
    --count_;
  }
  /// The receive that a message matches, left in the table; null if there is none.
  Operation* find(int source, std::uint64_t tag) noexcept {
    Operation* const here = first_that_takes(list(source), tag);
    Operation* const any = first_that_takes(any_source_, tag);
    if (here == nullptr || any == nullptr) return here != nullptr ? here : any;
    return here->order < any->order ? here : any;
  }
  /// The receives of one source, or of kAnySource.
  OperationList& list(int source) noexcept {
    return source == kAnySource ? any_source_ : by_source_[static_cast<std::size_t>(source)];
  }

 private:
  static Operation* first_that_takes(const OperationList& list, std::uint64_t tag) noexcept {
    Operation* receive = list.first();
    while (receive != nullptr && !receive->tag.takes(tag)) receive = receive->next;
    return receive;
  }

  std::vector<OperationList> by_source_;
  OperationList any_source_;
  std::size_t count_ = 0;
  std::uint64_t last_order_ = 0;
};

}  // namespace weft::p2p::message
