// Reads the token that every rank of a job, or every subscriber, must know to be accepted.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "p2p/transport/auth/token_key.hpp"

namespace weft::bootstrap {

/// Smallest and largest length of a token in bytes, without the white space around it.
inline constexpr std::size_t kTokenLeast = 32;
inline constexpr std::size_t kTokenMost = 4096;

/// Returns the key derived from the token in the file at `path`. The file must belong to this
/// process's user or to root, and no other user may have access. Throws Error(bad_config), whose
/// text never contains the token.
p2p::Identity::Secret read_token(const std::string& path, p2p::TokenUse use = p2p::TokenUse::ranks);

/// Returns the key derived from a token that a program has given. Throws Error(bad_config), whose
/// text never contains the token.
p2p::Identity::Secret given_token(std::string_view token);

}  // namespace weft::bootstrap
