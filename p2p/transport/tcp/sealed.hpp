// A connection's bytes as encrypted records, on their way in and out of buffers.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "p2p/transport/auth/record_cipher.hpp"

namespace weft::p2p::tcp {

/// On the wire: the cipher's header, then records of two bytes of length (little-endian) and as
/// many of ciphertext.
constexpr std::size_t kSealedPlain = 32u << 10;  ///< of one record, at most
constexpr std::size_t kSealedRecord = kSealedPlain + RecordCipher::kOverhead;
constexpr std::size_t kSealedLength = sizeof(std::uint16_t);
static_assert(kSealedRecord <= 0xffff);

class SealedOut {
 public:
  /// The header waits to be sent.
  explicit SealedOut(const RecordCipher& cipher);

  std::span<const std::byte> waiting() const noexcept {
    return std::span(wire_).subspan(out_, end_ - out_);
  }
  void sent(std::size_t bytes) noexcept { out_ += bytes; }
  /// Makes a record of what lies behind the first `skip` bytes of `parts`; returns of how many.
  /// Requires that nothing waits.
  std::size_t seal(RecordCipher& cipher, std::span<const iovec> parts, std::size_t skip) noexcept;

 private:
  std::vector<std::byte> plain_;
  std::vector<std::byte> wire_;
  std::size_t out_ = 0;
  std::size_t end_ = 0;
};

class SealedIn {
 public:
  explicit SealedIn(const RecordCipher&);

  bool has_plain() const noexcept { return begin_ < end_; }
  /// Moves what was opened behind the first `skip` bytes of `parts`; returns how much.
  std::size_t take(std::span<const iovec> parts, std::size_t skip) noexcept;
  /// Opens the next record if all of it is there. False: it is none.
  [[nodiscard]] bool open(RecordCipher& cipher) noexcept;
  /// Where to receive, once open() has found nothing.
  std::span<std::byte> room() noexcept { return std::span(wire_).subspan(wire_end_); }
  void received(std::size_t bytes) noexcept { wire_end_ += bytes; }

 private:
  std::vector<std::byte> plain_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::vector<std::byte> wire_;
  std::size_t wire_end_ = 0;
  bool begun_ = false;
};

}  // namespace weft::p2p::tcp
