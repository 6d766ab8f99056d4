// What stands against taking more memory, asked before the kernel has to kill somebody for it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace weft::p2p {

/// Why `bytes` more of memory can't be had (machine, cgroup, RLIMIT_AS, RLIMIT_FSIZE), with the
/// figures; nullopt when nothing is known against it.
std::optional<std::string> refusal_to_grow(std::size_t bytes);

}  // namespace weft::p2p
