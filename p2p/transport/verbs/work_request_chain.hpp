// Cuts what is put into work requests, a handful at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "p2p/transport/fabric.hpp"
#include "p2p/transport/verbs/api/verbs.hpp"

namespace weft::p2p::verbs {

/// One stretch of local memory. Many of them are made for every put: none is cleared for nothing.
struct MemoryPiece {
  const std::byte* data;
  std::size_t bytes;
  std::uint32_t key;
  std::uint32_t adopted;  ///< the chunk of adopted memory that it lies in; 0: none
};

/// A chain of WRITEs to consecutive remote memory. Pieces that don't fit any more are left for the
/// next.
class WorkRequestChain {
 public:
  static constexpr std::uint32_t kMostRequests = 16;
  static constexpr std::uint32_t kMostPieces = 16;

  WorkRequestChain(std::uint32_t pieces_per_request, std::uint64_t max_message,
                   std::uint32_t most_requests = kMostRequests) noexcept
      : pieces_per_request_(pieces_per_request < kMostPieces ? pieces_per_request : kMostPieces),
        max_message_(max_message),
        most_requests_(most_requests < kMostRequests ? most_requests : kMostRequests) {}

  void begin(RemoteMemory to) noexcept {
    to_ = to;
    count_ = 0;
    moved_ = 0;
  }
  /// Takes as much of the piece as there is room for, and advances it.
  void take(MemoryPiece& piece) noexcept;
  std::uint32_t count() const noexcept { return count_; }
  /// A request without a payload at the end; there is always room for one.
  void add_empty() noexcept;
  /// Every request carries its bytes with it: their memory is free as soon as they are posted.
  void send_inline() noexcept;
  std::uint32_t most_requests() const noexcept { return most_requests_; }
  bool is_full() const noexcept { return count_ == most_requests_; }
  std::size_t bytes() const noexcept { return moved_; }
  ibv_send_wr& last() noexcept { return requests_[count_ - 1]; }
  ibv_send_wr* chain() noexcept { return requests_.data(); }
  /// Where the next byte goes.
  RemoteMemory next() const noexcept { return {to_.address + moved_, to_.key}; }

 private:
  ibv_send_wr& open_request() noexcept;

  const std::uint32_t pieces_per_request_;
  const std::uint64_t max_message_;
  const std::uint32_t most_requests_;
  RemoteMemory to_;
  std::uint32_t count_ = 0;
  std::uint64_t room_ = 0;  ///< bytes left in the last request
  std::size_t moved_ = 0;
  std::array<ibv_send_wr, kMostRequests + 1> requests_;
  std::array<std::array<ibv_sge, kMostPieces>, kMostRequests + 1> pieces_;
};

/// The rest of pieces on their way to consecutive remote memory.
struct PayloadCursor {
  std::span<const MemoryPiece> pieces;
  RemoteMemory to;
  std::size_t done = 0;  ///< bytes of the first piece

  /// Begins a chain and fills it.
  void fill(WorkRequestChain& chain) noexcept;
};

}  // namespace weft::p2p::verbs
