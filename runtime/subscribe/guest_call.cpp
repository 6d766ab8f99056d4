#include "runtime/subscribe/guest_call.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/subscribe/guest_door.hpp"
#include "weft/error.hpp"

namespace weft::guest {

os::Fd call(const GuestAddress& address, const p2p::Identity::Secret& key, Deadline deadline) {
  const p2p::Identity identity = guest_identity(key);
  bootstrap::Visit visit(identity, p2p::Purpose::guest);
  auto outcome = visit.wait([&] { return look_up(address); }, deadline);
  if (outcome.met) return std::move(outcome.met->socket);
  if (!outcome.refusal.empty())
    throw Error(ErrorDetail{
        .code = Code::bootstrap,
        .operation = "join as a guest",
        .message = fmt::format("who publishes at {} does not let this process in: {}",
                               address.text(), outcome.refusal),
        .hint = "both ends need the same content of WEFT_GUEST_TOKEN_FILE, and the same weft"});
  throw Error(ErrorDetail{
      .code = Code::timeout,
      .operation = "join as a guest",
      .message = fmt::format("nobody who publishes was reached at {}: {}", address.text(),
                             outcome.trouble),
      .hint = "does it run, with the same WEFT_GUEST_ADDR? a firewall between the hosts?"});
}

}  // namespace weft::guest
