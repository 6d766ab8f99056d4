#include "p2p/transport/auth/record_cipher.hpp"

#include <sodium.h>

#include <cassert>

namespace weft::p2p {
namespace {

using State = crypto_secretstream_xchacha20poly1305_state;

static_assert(sizeof(RecordCipher::Key) == crypto_secretstream_xchacha20poly1305_KEYBYTES);
static_assert(sizeof(RecordCipher::Header) == crypto_secretstream_xchacha20poly1305_HEADERBYTES);
static_assert(RecordCipher::kOverhead == crypto_secretstream_xchacha20poly1305_ABYTES);

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

}  // namespace

struct RecordCipher::Streams {
  ~Streams() {
    sodium_memzero(&out, sizeof out);
    sodium_memzero(&in, sizeof in);
    sodium_memzero(in_key.data(), in_key.size());
  }

  State out{};
  State in{};
  Key in_key{};
  Header header{};
  bool begun = false;
};

RecordCipher::RecordCipher(const Key& sends, const Key& receives)
    : streams_(std::make_unique<Streams>()) {
  streams_->in_key = receives;
  crypto_secretstream_xchacha20poly1305_init_push(&streams_->out, raw(streams_->header.data()),
                                                  raw(sends.data()));
}

RecordCipher::~RecordCipher() = default;
RecordCipher::RecordCipher(RecordCipher&&) noexcept = default;
RecordCipher& RecordCipher::operator=(RecordCipher&&) noexcept = default;

const RecordCipher::Header& RecordCipher::header() const noexcept { return streams_->header; }

void RecordCipher::begin(const Header& theirs) noexcept {
  crypto_secretstream_xchacha20poly1305_init_pull(&streams_->in, raw(theirs.data()),
                                                  raw(streams_->in_key.data()));
  streams_->begun = true;
}

void RecordCipher::seal(std::span<const std::byte> plain, std::span<std::byte> sealed) noexcept {
  assert(sealed.size() == plain.size() + kOverhead);
  crypto_secretstream_xchacha20poly1305_push(&streams_->out, raw(sealed.data()), nullptr,
                                             raw(plain.data()), plain.size(), nullptr, 0, 0);
}

bool RecordCipher::open(std::span<const std::byte> sealed, std::span<std::byte> plain) noexcept {
  if (!streams_->begun || sealed.size() < kOverhead) return false;
  assert(plain.size() == sealed.size() - kOverhead);
  return crypto_secretstream_xchacha20poly1305_pull(&streams_->in, raw(plain.data()), nullptr,
                                                    nullptr, raw(sealed.data()), sealed.size(),
                                                    nullptr, 0) == 0;
}

}  // namespace weft::p2p
