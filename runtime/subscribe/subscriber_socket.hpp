// Socket options of a connection between subscriber and publisher.
#pragma once

namespace weft::subscribe {

/// Enables TCP keepalive: a host that disappears is detected within 30 s even if nothing is being
/// sent to it.
void watch_for_loss(int socket) noexcept;

}  // namespace weft::subscribe
