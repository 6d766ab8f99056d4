// The congestion control of a rank's TCP connections.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/log.hpp"

namespace weft::p2p {

/// Chooses once. bbr paces what is sent, which delays all that asks and answers on a network of a
/// job; it is replaced where the system allows another. Immutable, any thread.
class CongestionControl {
 public:
  /// Whether a socket of this host takes a congestion control of that name.
  using Takes = std::function<bool(const std::string& name)>;

  /// The system's.
  CongestionControl() = default;
  /// `asked`: WEFT_TCP_CONGESTION.
  explicit CongestionControl(std::string_view asked);
  /// The same for tests: `system` is what sockets have.
  CongestionControl(std::string_view asked, const std::string& system, const Takes& takes);

  /// Warns of what it replaces, or of what it can't have.
  void tell(Log& log) const;
  /// Whether this host refuses what was asked for.
  bool is_refused() const noexcept { return is_refused_; }
  /// Before the socket connects or listens: connections inherit it from their listener, and the
  /// pacing of one that has begun would stay.
  void apply(int socket) const noexcept;
  /// The name; empty: the system's.
  const std::string& name() const noexcept { return name_; }

 private:
  std::string name_;
  std::string words_;  ///< for the log; empty: there is nothing to tell
  bool is_refused_ = false;
};

}  // namespace weft::p2p
