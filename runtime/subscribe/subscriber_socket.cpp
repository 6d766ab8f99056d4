#include "runtime/subscribe/subscriber_socket.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace weft::subscribe {

void watch_for_loss(int socket) noexcept {
  const auto set = [&](int level, int option, int value) {
    // If an option cannot be set, a lost host is only detected later.
    (void)::setsockopt(socket, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);  // seconds
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

}  // namespace weft::subscribe
