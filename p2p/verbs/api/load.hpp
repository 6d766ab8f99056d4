// The verbs library of this machine.
#pragma once

#include <memory>
#include <string>

#include "p2p/verbs/api/verbs.hpp"

namespace weft::p2p::verbs {

/// libibverbs, loaded when first asked for; one for the process. Null where it is not installed or
/// too old; `why` says so then. Thread-safe.
std::shared_ptr<Verbs> load_verbs(std::string& why);

}  // namespace weft::p2p::verbs
