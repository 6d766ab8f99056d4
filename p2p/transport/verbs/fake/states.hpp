// Requirements of a queue pair's states.
#pragma once

#include "p2p/transport/verbs/fake/objects.hpp"

namespace weft::p2p::verbs::fake {

/// 0, or EINVAL: no such transition, an attribute too few or too many, or a value that the port
/// doesn't have. Takes the attributes over if 0, the state not.
int take_attributes(FakeQp& qp, const ibv_qp_attr& attributes, unsigned mask);

}  // namespace weft::p2p::verbs::fake
