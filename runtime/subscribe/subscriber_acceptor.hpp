// Where processes that are no ranks come in, to read what this one publishes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/log.hpp"
#include "base/os/fd.hpp"
#include "p2p/progress/progress_thread.hpp"
#include "p2p/progress/timer.hpp"
#include "p2p/transport/auth/rejected_connections.hpp"
#include "p2p/transport/wireup/acceptor.hpp"
#include "runtime/subscribe/subscriber_address.hpp"

namespace weft::subscribe {

/// Who one is for the other: the connector's handshake, keyed with the subscribers' token. A
/// subscriber has no number of its own, and knows nothing of the job.
p2p::Identity host_identity(const p2p::Identity::Secret& key);
p2p::Identity subscriber_identity(const p2p::Identity::Secret& key);

/// Listens for subscribers and lets those in who know the token, by the rules of a rank's own
/// acceptor: nothing is allocated for an unauthenticated client, who has a fixed record, a deadline
/// and a place in a count. Its thread's only, but for constructor, address() and
/// rejected_connections().
class SubscriberAcceptor {
 public:
  struct Setup {
    SubscriberAddress address;
    std::string iface;  ///< WEFT_IFACE: where to listen when the address is a file
    p2p::Identity::Secret key{};
    /// WEFT_ENCRYPT, which subscribers' connections have nothing for: what leaves this host is
    /// refused.
    bool must_encrypt = false;
  };
  /// A subscriber's socket, which it may take; an empty string lets the subscriber in, else it is
  /// why not.
  using Came = std::function<std::string(os::Fd& socket)>;

  /// Listens; who calls is let in from open() on. `thread` and `log` must outlive it, and `thread`
  /// must stop before it goes. Throws Error(bad_config, system).
  SubscriberAcceptor(p2p::ProgressThread& thread, Log& log, const Setup& setup, Came came);
  SubscriberAcceptor(const SubscriberAcceptor&) = delete;
  SubscriberAcceptor& operator=(const SubscriberAcceptor&) = delete;

  void open() { acceptor_.open(identity_); }
  /// "10.0.0.1:4711", or several of them with commas between.
  const std::string& address() const noexcept { return address_; }
  std::uint64_t rejected_connections() const noexcept { return rejected_connections_.count(); }

 private:
  const p2p::Identity identity_;
  p2p::RejectedConnections rejected_connections_;
  p2p::Acceptor acceptor_;
  p2p::Timer ticks_;
  std::string address_;
  AddressFile file_;
};

}  // namespace weft::subscribe
