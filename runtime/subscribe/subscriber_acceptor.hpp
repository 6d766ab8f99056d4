// Accepts and authenticates subscribers: processes outside the job that read what this one
// publishes.
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

/// The identities of publisher and subscriber in the handshake, keyed with the subscribers' token.
/// A subscriber has no number of its own and knows nothing of the job.
p2p::Identity host_identity(const p2p::Identity::Secret& key);
p2p::Identity subscriber_identity(const p2p::Identity::Secret& key);

/// Listens for subscribers and accepts those that know the token, by the rules of a rank's own
/// acceptor: an unauthenticated client causes no allocation; it has a fixed record, a deadline and
/// a place in a limited count. Runs on `thread`, except for the constructor, address() and
/// rejected_connections().
class SubscriberAcceptor {
 public:
  struct Setup {
    SubscriberAddress address;
    std::string iface;  ///< WEFT_IFACE: the interface to listen on if `address` is a file
    p2p::Identity::Secret key{};
    /// WEFT_ENCRYPT. Subscribers' connections are not encrypted, so addresses that other hosts can
    /// reach are then refused.
    bool must_encrypt = false;
  };
  /// Receives a subscriber's socket, which it may take. Returns an empty string to accept the
  /// subscriber, else the reason for the refusal.
  using Came = std::function<std::string(os::Fd& socket)>;

  /// Starts to listen; subscribers are accepted from open() on. `thread` and `log` must outlive the
  /// object, and `thread` must stop before its destruction. Throws Error(bad_config, system).
  SubscriberAcceptor(p2p::ProgressThread& thread, Log& log, const Setup& setup, Came came);
  SubscriberAcceptor(const SubscriberAcceptor&) = delete;
  SubscriberAcceptor& operator=(const SubscriberAcceptor&) = delete;

  void open() { acceptor_.open(identity_); }
  /// "10.0.0.1:4711", or several addresses separated by commas.
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
