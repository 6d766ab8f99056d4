// The file whose content every rank of a job, or every subscriber, must know to be let in.
#pragma once

#include <cstddef>
#include <string>

#include "p2p/transport/auth/token_key.hpp"

namespace weft::bootstrap {

/// Least length of a token, without the white space around it.
inline constexpr std::size_t kTokenLeast = 32;
inline constexpr std::size_t kTokenMost = 4096;

/// The key that the token in this file stands for. The file must belong to this process's user or
/// to root, and nobody else may read or write it. Throws Error(bad_config), which never has the
/// token.
p2p::Identity::Secret read_token(const std::string& path, p2p::TokenUse use = p2p::TokenUse::ranks);

}  // namespace weft::bootstrap
