// Errors of signals.
#pragma once

#include <string>
#include <string_view>

#include "p2p/mesh/mesh.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/error.hpp"

namespace weft::p2p {

/// 'signal "steps": ' and the message, unless that names the signal: an error's text would call it
/// a slot.
std::string in_signal(const std::string& name, std::string_view message);
/// `peer`: -1 if no peer is concerned.
Status signal_failure(const LocalRank& local, const Mesh& mesh, Code code, const char* operation,
                      const std::string& name, int peer, std::string_view message,
                      std::string_view hint) noexcept;
/// Throws Error(bad_argument) if a signal can't have this name.
void check_signal_name(const LocalRank& local, const Mesh& mesh, const char* operation,
                       const std::string& name);

}  // namespace weft::p2p
