// Makes the public handles that a slot's data path gives out.
#pragma once

#include <cstdint>
#include <utility>

#include "base/life.hpp"
#include "weft/slot.hpp"

namespace weft::detail {

struct SlotAccess {
  static Arrival received(PutOwner& owner, const Tensor& tensor, std::uint64_t sequence,
                          const std::uint32_t* outcome = nullptr) noexcept {
    Arrival arrival;
    arrival.tensor_ = &tensor;
    arrival.sequence_ = sequence;
    arrival.owner_ = &owner;
    arrival.outcome_ = outcome;
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
  /// The put was refused. `is_kept`: the writer keeps the detail, a p2p::RefusedPut, too.
  static void refuse(Request& request, Status why, bool is_kept) noexcept {
    request.status_ = std::move(why);
    if (is_kept) request.ticket_ = kRefused;
  }
  /// Whether the request's detail is a p2p::RefusedPut.
  static bool is_refused(const Request& request) noexcept { return request.ticket_ == kRefused; }
  /// The put goes on: the request asks `writer` for it by `ticket`.
  static void follow(Request& request, PutWriter& writer, const Life& life,
                     std::uint64_t ticket) noexcept {
    request.writer_ = &writer;
    request.life_ = life.word();
    request.mark_ = life.mark();
    request.ticket_ = ticket;
  }

 private:
  static constexpr std::uint64_t kRefused = ~std::uint64_t{0};  ///< no put's ticket
};

}  // namespace weft::detail
