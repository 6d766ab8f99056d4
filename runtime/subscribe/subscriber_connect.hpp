// Connects a subscriber to a publisher.
#pragma once

#include "base/os/fd.hpp"
#include "p2p/transport/auth/handshake.hpp"
#include "runtime/subscribe/subscriber_address.hpp"
#include "weft/deadline.hpp"

namespace weft::subscribe {

/// Connects to the publisher at `address`, and tries again until the publisher accepts or refuses
/// this process. Returns a non-blocking socket. Throws Error: timeout (no publisher was reached),
/// bootstrap (another token or version of weft, or too many subscribers), exhausted, system.
os::Fd call(const SubscriberAddress& address, const p2p::Identity::Secret& key, Deadline deadline);

}  // namespace weft::subscribe
