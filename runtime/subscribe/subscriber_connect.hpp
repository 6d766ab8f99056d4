// A subscriber's way in.
#pragma once

#include "base/os/fd.hpp"
#include "p2p/transport/auth/handshake.hpp"
#include "runtime/subscribe/subscriber_address.hpp"
#include "weft/deadline.hpp"

namespace weft::subscribe {

/// Calls who publishes there, again and again, until it lets this process in. The socket does not
/// block. Throws Error: timeout (nobody was reached), bootstrap (the token, or the version of weft,
/// is another; or it takes in no more subscribers), exhausted, system.
os::Fd call(const SubscriberAddress& address, const p2p::Identity::Secret& key, Deadline deadline);

}  // namespace weft::subscribe
