// Cuts the bytes that one rank sends another into pieces, and orders the pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weft::detail {

/// A run of bytes that travels in one put.
struct Piece {
  static constexpr std::size_t kMost = 256u << 10;  ///< of a schedule
  /// Size of a piece of a part that has several, where a put costs little: the few outstanding
  /// pieces between two ranks then stay in the processors' caches.
  static constexpr std::size_t kUsual = 64u << 10;
  /// The same where a put costs system calls at both ends.
  static constexpr std::size_t kLong = 512u << 10;
  static constexpr std::size_t kHead = 64;  ///< in front of the first piece of a call
  /// Size of the first piece of a part that has several. This piece is copied, to travel with its
  /// head.
  static constexpr std::size_t kFirst = 4096 - kHead;

  /// Largest part that travels whole with a head.
  static constexpr std::size_t kMostHeaded = kUsual - kHead;

  bool headed = false;     ///< a head travels in front of the piece
  bool second = false;     ///< the piece belongs to the second part
  std::size_t number = 0;  ///< index in its part
  std::size_t offset = 0;  ///< bytes from the start of its part
  std::size_t bytes = 0;
};

/// The bytes that one rank sends another in a call: two parts, the second of which depends on what
/// other ranks send. Both ends derive the pieces from the sizes alone, so that only the bytes
/// travel. The first part begins with a piece that carries a head, even if the part has no bytes.
/// Parts of equal size are cut at the same offsets. The first part is never more than ahead()
/// pieces ahead of the second, whose piece n can be sent once pieces n of all ranks' first parts
/// have arrived.
class PieceSchedule {
 public:
  static constexpr std::size_t kAhead = 4;
  /// Pieces of the first part that may be ahead of the second. Long ones are fewer: each has a
  /// buffer at its receiver.
  static constexpr std::size_t ahead(std::size_t usual) noexcept {
    return usual > Piece::kMost ? kAhead * Piece::kMost / usual : kAhead;
  }

  PieceSchedule() = default;
  /// `usual`: bytes of a piece of a part that has several; from Piece::kUsual to Piece::kLong.
  PieceSchedule(bool moves, std::size_t first, std::size_t second, std::size_t usual) noexcept
      : moves_(moves), usual_(usual), bytes_{first, second} {}

  bool over() const noexcept { return !first_left() && !second_left(); }
  /// Requires !over().
  Piece next() const noexcept {
    const bool second =
        second_left() && (!first_left() || pieces_[0] >= pieces_[1] + ahead(usual_));
    const std::size_t part = second ? 1 : 0;
    Piece piece = cut(bytes_[part], offset_[part], usual_);
    piece.headed = !second && pieces_[0] == 0;
    piece.second = second;
    piece.number = pieces_[part];
    return piece;
  }
  void pass(const Piece& piece) noexcept {
    const std::size_t part = piece.second ? 1 : 0;
    ++pieces_[part];
    offset_[part] += piece.bytes;
  }
  std::size_t first_bytes() const noexcept { return bytes_[0]; }
  /// Bytes of the largest piece, with its head; 0 if nothing moves.
  std::size_t largest() const noexcept {
    return std::max(moves_ ? largest_of(bytes_[0], Piece::kHead) : 0, largest_of(bytes_[1], 0));
  }
  /// True if a piece of the first part follows.
  bool has_first() const noexcept { return first_left(); }
  /// True if the first part has a piece `number` that is not passed yet.
  bool has_first_left(std::size_t number) const noexcept {
    return first_left() && pieces_[0] <= number;
  }

  /// The piece at `offset` of a part of `total` bytes.
  static Piece cut(std::size_t total, std::size_t offset, std::size_t usual) noexcept {
    const std::size_t left = total - offset;
    // Two puts that follow each other go over TCP as one, so that little need be copied.
    const bool alone = total <= (usual > Piece::kUsual ? Piece::kFirst : Piece::kMostHeaded);
    if (offset == 0) return {.offset = 0, .bytes = alone ? total : Piece::kFirst};
    return {.offset = offset, .bytes = std::min(left, usual)};
  }

 private:
  std::size_t largest_of(std::size_t part, std::size_t head) const noexcept {
    const std::size_t first = cut(part, 0, usual_).bytes;
    return std::max(first + head, std::min(part - first, usual_));
  }
  bool first_left() const noexcept { return moves_ && (pieces_[0] == 0 || offset_[0] < bytes_[0]); }
  bool second_left() const noexcept { return offset_[1] < bytes_[1]; }

  bool moves_ = false;
  std::size_t usual_ = Piece::kUsual;
  std::size_t bytes_[2] = {0, 0};
  std::size_t pieces_[2] = {0, 0};
  std::size_t offset_[2] = {0, 0};
};

}  // namespace weft::detail
