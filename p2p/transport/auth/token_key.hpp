// The key that a token stands for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "p2p/transport/auth/handshake.hpp"

namespace weft::p2p {

/// Purpose of a token. The same token gives each purpose another key.
enum class TokenUse : std::uint8_t { ranks, subscribers };

/// Equal tokens give equal keys. A token must be long and random: the key is no better than it is.
/// Throws Error(system) when libsodium can't start.
Identity::Secret token_key(std::string_view token, TokenUse use = TokenUse::ranks);

/// Overwrites what was secret.
void wipe(void* memory, std::size_t bytes) noexcept;

}  // namespace weft::p2p
