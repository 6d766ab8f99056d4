// Makes the public handles that a slot's data path gives out.
#pragma once

#include <cstdint>

#include "base/life.hpp"
#include "weft/slot.hpp"

namespace weft::detail {

struct SlotAccess {
  static Arrival received(PutOwner& owner, const Tensor& tensor, std::uint64_t sequence) noexcept {
    Arrival arrival;
    arrival.tensor_ = &tensor;
    arrival.sequence_ = sequence;
    arrival.owner_ = &owner;
    return arrival;
  }
  static Arrival viewed(VersionReader& reader, const Tensor& tensor,
                        std::uint64_t version) noexcept {
    Arrival arrival;
    arrival.tensor_ = &tensor;
    arrival.sequence_ = version;
    arrival.reader_ = &reader;
    return arrival;
  }
  /// The outcome of a put that has ended.
  static Status& outcome(Request& request) noexcept { return request.status_; }
  /// The put goes on: the request asks `writer` for it by `ticket`.
  static void follow(Request& request, PutWriter& writer, const Life& life,
                     std::uint64_t ticket) noexcept {
    request.writer_ = &writer;
    request.life_ = life.word();
    request.mark_ = life.mark();
    request.ticket_ = ticket;
  }
};

}  // namespace weft::detail
