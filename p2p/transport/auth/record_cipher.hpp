// Records that only the two ranks of one connection can read, and no one else can change unnoticed.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace weft::p2p {

/// XChaCha20-Poly1305 (libsodium's secretstream), with a key for each direction. Records are opened
/// in the order in which they were sealed; one that was changed, left out, repeated, moved or sent
/// back to who sealed it does not open. Keys are for one connection only (Identity::keys()).
/// Move-only. Thread-safety: one thread may seal while another opens.
class RecordCipher {
 public:
  using Key = std::array<std::byte, 32>;
  /// Sent before the first record, in plain.
  using Header = std::array<std::byte, 24>;

  /// By how much a sealed record is longer.
  static constexpr std::size_t kOverhead = 17;

  /// This end seals with `sends` and opens with `receives`.
  RecordCipher(const Key& sends, const Key& receives);
  ~RecordCipher();
  RecordCipher(RecordCipher&&) noexcept;
  RecordCipher& operator=(RecordCipher&&) noexcept;

  /// This end's.
  const Header& header() const noexcept;
  /// The other end's header; before the first open().
  void begin(const Header& theirs) noexcept;

  /// `sealed` has plain.size() + kOverhead bytes and does not overlap `plain`.
  void seal(std::span<const std::byte> plain, std::span<std::byte> sealed) noexcept;
  /// Into `plain`, of sealed.size() - kOverhead bytes. False: it is not the record that the other
  /// end sealed next, and the connection is of no use any more.
  [[nodiscard]] bool open(std::span<const std::byte> sealed, std::span<std::byte> plain) noexcept;

 private:
  struct Streams;
  std::unique_ptr<Streams> streams_;
};

}  // namespace weft::p2p
