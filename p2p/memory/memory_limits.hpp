// Checks the limits on taking more memory, before the kernel's OOM killer would have to act.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace weft::p2p {

/// The reason why `bytes` more memory can't be had (machine, cgroup, RLIMIT_AS, RLIMIT_FSIZE), with
/// figures; nullopt if no limit is known to forbid them.
std::optional<std::string> refusal_to_grow(std::size_t bytes);

}  // namespace weft::p2p
