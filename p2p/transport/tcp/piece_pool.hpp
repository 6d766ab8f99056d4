// Pieces of striped puts that no rail has taken yet, and which rail may take the next.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "p2p/transport/tcp/wire.hpp"
#include "weft/deadline.hpp"

namespace weft::p2p::tcp {

/// Rails take pieces when they have room, so that a share follows from a rail's speed. A slow rail
/// declines a piece that the others would move sooner. The caller locks.
class PiecePool {
 public:
  static constexpr std::size_t kMostRails = 8;
  /// A piece's bytes; larger tensors have larger ones.
  static constexpr std::size_t kPiece = 256u << 10;
  static constexpr std::size_t kLargePiece = 1u << 20;
  static constexpr std::size_t kLarge = 16u << 20;  ///< a tensor from here on

  struct Piece {
    Head head;
    iovec run{};
    std::uint64_t put = 0;
  };

  static std::size_t piece_bytes(std::size_t tensor) noexcept {
    return tensor < kLarge ? kPiece : kLargePiece;
  }

  bool is_empty() const noexcept { return pieces_.empty(); }
  /// Throws std::bad_alloc.
  void add(const Piece& piece);
  /// One that a rail did not get through: it goes first. Throws std::bad_alloc.
  void put_back(const Piece& piece);
  const Piece& front() const noexcept { return pieces_.front(); }
  void clear() noexcept;

  /// A rail takes pieces from now on, or no more; what it had is no longer under way.
  void use(std::size_t rail, bool used) noexcept;
  /// Whether the rail is to take the first piece now. At least one of the rails in use is, unless
  /// each has as much under way as it may.
  bool may_take(std::size_t rail, Clock::time_point now) const noexcept;
  /// The rail takes the first piece.
  Piece take(std::size_t rail, Clock::time_point now) noexcept;
  /// The peer has `bytes` of what the rail took.
  void arrived(std::size_t rail, std::size_t bytes, Clock::time_point now) noexcept;

  std::size_t under_way(std::size_t rail) const noexcept { return rails_[rail].under_way; }
  /// Bytes per second, as far as measured; 0: not yet.
  double rate(std::size_t rail) const noexcept { return rails_[rail].rate; }

 private:
  /// Under way by one rail at most, unless it is faster than that in kWindow.
  static constexpr std::size_t kMostUnderWay = 2u << 20;
  static constexpr std::size_t kFirstUnderWay = 1u << 20;  ///< before its speed is known
  static constexpr double kWindow = 0.01;                  ///< seconds
  /// A rail that declines is tried again after this time: it may have recovered, or was never slow
  /// and its processor busy. If it is slow, its piece holds up the tensor, so pieces are as rare as
  /// they are slow.
  static constexpr std::chrono::milliseconds kForgets{100};
  static constexpr int kRetryPause = 20;

  struct Rail {
    bool used = false;
    std::size_t under_way = 0;
    std::size_t measured = 0;  ///< bytes since `since`
    Clock::time_point since;
    Clock::time_point last;  ///< when anything arrived
    double rate = 0;
  };

  std::deque<Piece> pieces_;
  std::size_t bytes_ = 0;
  std::array<Rail, kMostRails> rails_{};
};

}  // namespace weft::p2p::tcp
