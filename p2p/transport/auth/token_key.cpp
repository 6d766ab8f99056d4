#include "p2p/transport/auth/token_key.hpp"

#include <sodium.h>

#include "weft/error.hpp"

namespace weft::p2p {

Identity::Secret token_key(std::string_view token, TokenUse use) {
  if (sodium_init() < 0)
    throw Error(ErrorDetail{
        .code = Code::system, .operation = "join", .message = "libsodium found no randomness"});
  const std::string_view purpose =
      use == TokenUse::subscribers ? "weft subscribers' token" : "weft bootstrap token";
  Identity::Secret key{};
  static_assert(sizeof key >= crypto_generichash_BYTES_MIN);
  // Keyed with the purpose: the same token, used by something else, gives nothing away.
  crypto_generichash(reinterpret_cast<unsigned char*>(key.data()), key.size(),
                     reinterpret_cast<const unsigned char*>(token.data()), token.size(),
                     reinterpret_cast<const unsigned char*>(purpose.data()), purpose.size());
  return key;
}

void wipe(void* memory, std::size_t bytes) noexcept { sodium_memzero(memory, bytes); }

}  // namespace weft::p2p
