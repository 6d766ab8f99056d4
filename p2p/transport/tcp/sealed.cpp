#include "p2p/transport/tcp/sealed.hpp"

#include <algorithm>
#include <cstring>

namespace weft::p2p::tcp {
namespace {

/// Calls act(data, bytes) for what lies behind the first `skip` bytes, `most` of it.
template <typename Act>
std::size_t for_each_behind(std::span<const iovec> parts, std::size_t skip, std::size_t most,
                            const Act& act) noexcept {
  std::size_t done = 0;
  for (const iovec& part : parts) {
    const std::size_t skipped = std::min(skip, part.iov_len);
    skip -= skipped;
    const std::size_t some = std::min(part.iov_len - skipped, most - done);
    if (some > 0) act(static_cast<std::byte*>(part.iov_base) + skipped, some);
    done += some;
  }
  return done;
}

}  // namespace

SealedOut::SealedOut(const RecordCipher& cipher)
    : plain_(kSealedPlain), wire_(kSealedLength + kSealedRecord), end_(cipher.header().size()) {
  std::copy(cipher.header().begin(), cipher.header().end(), wire_.begin());
}

std::size_t SealedOut::seal(RecordCipher& cipher, std::span<const iovec> parts,
                            std::size_t skip) noexcept {
  std::byte* to = plain_.data();
  const std::size_t bytes =
      for_each_behind(parts, skip, kSealedPlain, [&to](const std::byte* from, std::size_t some) {
        std::memcpy(to, from, some);
        to += some;
      });
  if (bytes == 0) return 0;
  const std::size_t length = bytes + RecordCipher::kOverhead;
  wire_[0] = static_cast<std::byte>(length & 0xff);
  wire_[1] = static_cast<std::byte>(length >> 8);
  cipher.seal(std::span(plain_).first(bytes), std::span(wire_).subspan(kSealedLength, length));
  out_ = 0;
  end_ = kSealedLength + length;
  return bytes;
}

SealedIn::SealedIn(const RecordCipher&)
    : plain_(kSealedPlain), wire_(kSealedLength + kSealedRecord) {}

std::size_t SealedIn::take(std::span<const iovec> parts, std::size_t skip) noexcept {
  return for_each_behind(parts, skip, end_ - begin_, [this](std::byte* to, std::size_t some) {
    std::memcpy(to, plain_.data() + begin_, some);
    begin_ += some;
  });
}

bool SealedIn::open(RecordCipher& cipher) noexcept {
  std::size_t used = 0;
  if (!begun_) {
    RecordCipher::Header header;
    if (wire_end_ < header.size()) return true;
    std::copy_n(wire_.begin(), header.size(), header.begin());
    cipher.begin(header);
    begun_ = true;
    used = header.size();
  }
  bool good = true;
  if (wire_end_ - used >= kSealedLength) {
    const std::byte* at = wire_.data() + used;
    const std::size_t length =
        std::to_integer<std::size_t>(at[0]) | std::to_integer<std::size_t>(at[1]) << 8;
    if (length <= RecordCipher::kOverhead || length > kSealedRecord) return false;
    if (wire_end_ - used - kSealedLength >= length) {
      begin_ = 0;
      end_ = length - RecordCipher::kOverhead;
      good = cipher.open({at + kSealedLength, length}, std::span(plain_).first(end_));
      if (!good) end_ = 0;
      used += kSealedLength + length;
    }
  }
  std::memmove(wire_.data(), wire_.data() + used, wire_end_ - used);
  wire_end_ -= used;
  return good;
}

}  // namespace weft::p2p::tcp
