#include "runtime/subscribe/subscriber_connect.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/subscribe/subscriber_acceptor.hpp"
#include "weft/error.hpp"

namespace weft::subscribe {

os::Fd call(const SubscriberAddress& address, const p2p::Identity::Secret& key, Deadline deadline) {
  const p2p::Identity identity = subscriber_identity(key);
  bootstrap::RootConnection root_connection(identity, p2p::Purpose::subscriber);
  auto outcome = root_connection.wait([&] { return look_up(address); }, deadline);
  if (outcome.met) return std::move(outcome.met->socket);
  if (!outcome.refusal.empty())
    throw Error(ErrorDetail{
        .code = Code::bootstrap,
        .operation = "join as a subscriber",
        .message = fmt::format("the publisher at {} does not let this process in: {}",
                               address.text(), outcome.refusal),
        .hint = "both ends need the same content of WEFT_SUBSCRIBE_TOKEN_FILE, and the same weft"});
  throw Error(ErrorDetail{
      .code = Code::timeout,
      .operation = "join as a subscriber",
      .message = fmt::format("no publisher was reached at {}: {}", address.text(), outcome.trouble),
      .hint = "check that it runs with the same WEFT_SUBSCRIBE_ADDR, and the firewalls between the "
              "hosts"});
}

}  // namespace weft::subscribe
