// Bytes to and from each rank of a group at once, by slots: the same over every fabric.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "p2p/slot/slot_table.hpp"
#include "runtime/collective/signature.hpp"
#include "weft/slot.hpp"

namespace weft::detail {

/// What goes ahead of every piece.
struct PieceHead {
  std::uint64_t word = 0;   ///< number of the call and its fingerprint
  std::uint64_t bytes = 0;  ///< of the piece
  std::uint64_t total = 0;  ///< of all pieces
  Signature signature;
};

/// One way each to a rank. A slot has pieces of one size, of which the last is filled up; there is
/// always one, so that every rank tells every rank that it talks to what it was called for.
class SlotLink {
 public:
  static constexpr std::size_t kPiece = 8192;  ///< with its head
  static constexpr std::size_t kHead = 64;
  static constexpr std::size_t kPayload = kPiece - kHead;
  static constexpr std::uint32_t kDepth = 16;
  static_assert(sizeof(PieceHead) <= kHead);

  /// `name`: the slot's, without its writer. Throws Error.
  SlotLink(p2p::LocalRank& local, p2p::SlotTable& slots, const std::string& name, int peer);
  ~SlotLink();
  SlotLink(const SlotLink&) = delete;
  SlotLink& operator=(const SlotLink&) = delete;
  /// Throws Error.
  void attach(Deadline deadline);

  /// What is to be sent and received next. Nothing: null, not even a head.
  void expect(const PieceHead& head, const std::byte* from, std::size_t from_bytes, bool sends,
              std::byte* to, std::size_t to_bytes, bool receives) noexcept;
  /// Moves what can be moved. Not ok: a put failed.
  Status step() noexcept;
  bool sent() const noexcept { return !sends_; }
  bool received() const noexcept { return !receives_; }
  /// The head of a piece that is not what was expected.
  const std::optional<PieceHead>& stranger() const noexcept { return stranger_; }
  std::uint64_t copied() const noexcept { return copied_; }

 private:
  struct Outgoing {
    Tensor piece;
    Request request;
  };
  Status send_some() noexcept;
  Status receive_some() noexcept;
  SlotSpec spec(int writer) const;

  p2p::LocalRank& local_;
  p2p::SlotTable& slots_;
  const std::string name_;
  const int peer_;
  std::shared_ptr<SlotState> slot_;
  std::shared_ptr<RemoteSlotState> remote_;
  std::array<Outgoing, kDepth> outgoing_;
  std::size_t next_ = 0;

  PieceHead head_;
  const std::byte* from_ = nullptr;
  std::size_t from_left_ = 0;
  std::byte* to_ = nullptr;
  std::size_t to_left_ = 0;
  std::size_t to_bytes_ = 0;
  bool sends_ = false;
  bool receives_ = false;
  std::optional<PieceHead> stranger_;
  std::uint64_t copied_ = 0;
};

}  // namespace weft::detail
