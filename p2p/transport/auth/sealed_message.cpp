#include "p2p/transport/auth/sealed_message.hpp"

#include <sodium.h>

namespace weft::p2p {
namespace {

constexpr std::size_t kNonce = crypto_secretbox_NONCEBYTES;
static_assert(sizeof(MessageKey) == crypto_secretbox_KEYBYTES);
static_assert(kSealOverhead == kNonce + crypto_secretbox_MACBYTES);

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

}  // namespace

MessageKey draw_message_key() noexcept {
  MessageKey key{};
  randombytes_buf(key.data(), key.size());
  return key;
}

std::vector<std::byte> seal_message(const MessageKey& key, std::span<const std::byte> plain) {
  std::vector<std::byte> sealed(plain.size() + kSealOverhead);
  randombytes_buf(sealed.data(), kNonce);
  crypto_secretbox_easy(raw(sealed.data() + kNonce), raw(plain.data()), plain.size(),
                        raw(sealed.data()), raw(key.data()));
  return sealed;
}

std::optional<std::vector<std::byte>> open_message(const MessageKey& key,
                                                   std::span<const std::byte> sealed) {
  if (sealed.size() < kSealOverhead) return std::nullopt;
  std::vector<std::byte> plain(sealed.size() - kSealOverhead);
  if (crypto_secretbox_open_easy(raw(plain.data()), raw(sealed.data() + kNonce),
                                 sealed.size() - kNonce, raw(sealed.data()), raw(key.data())) != 0)
    return std::nullopt;
  return plain;
}

}  // namespace weft::p2p
