// Connects to a rank by any of its IP addresses, until the rank answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "p2p/progress/watched_fd.hpp"
#include "p2p/transport/address/ip_address.hpp"
#include "p2p/transport/auth/exact_read.hpp"
#include "p2p/transport/auth/handshake.hpp"
#include "p2p/transport/wireup/congestion.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"

namespace weft::p2p {

/// Happy-Eyeballs connect: starts a new trial every `kStagger` without waiting for earlier ones and
/// retries the list until the deadline. The first connection that authenticates is used. Progress
/// thread only.
class ConnectAttempt {
 public:
  struct Events {
    /// The socket of the proven rank, and the handshakes of both ends. The call may be destroyed by
    /// this.
    std::function<void(os::Fd socket, const Handshake& own, const Handshake& server)> answered;
    /// This rank lacks descriptors; the call goes on trying.
    std::function<void(const Error&)> short_of;
  };

  struct Target {
    int rank = -1;
    Purpose purpose = Purpose::stream;
    std::uint16_t rail = 0;
    bool keeps_trying = false;  ///< also where no process listens
  };

  /// `identity` must outlive it. `from`: this host's addresses that it may call from; none: any.
  ConnectAttempt(ProgressThread& progress, const Identity& identity, Target target,
                 std::uint16_t port, const std::vector<IpAddress>& ips, Events events,
                 CongestionControl congestion = {}, std::vector<IpAddress> from = {});
  ConnectAttempt(const ConnectAttempt&) = delete;
  ConnectAttempt& operator=(const ConnectAttempt&) = delete;

  /// Tries the first place.
  void begin() { start_next(Clock::now()); }
  /// Goes on with what is due. Why the rank can't be there any more, if so: it need not be called
  /// again.
  std::optional<std::string> tick();
  /// Why a rank that was reached does not want this one, or that it is of another job or version;
  /// empty while no listener said so.
  const std::string& refusal() const noexcept { return refusal_; }
  /// Every place, with what became of it the last time.
  std::string text() const;

 private:
  /// awaits_answer: the answer's protocol is known already.
  enum class Stage : std::uint8_t {
    idle,
    connecting,
    awaits_protocol,
    awaits_answer,
    proved,
    refused
  };

  struct Trial {
    IpAddress ip{};
    Watched socket;
    Stage stage = Stage::idle;
    Clock::time_point deadline;
    Handshake handshake;
    Handshake server;
    ExactRead in;
    std::string trouble;   ///< how it failed the last time
    bool refused = false;  ///< the last time
    bool barred = false;   ///< the way there begins at no address that it may call from
  };

  void start_next(Clock::time_point now);
  void start(Trial& trial, Clock::time_point now);
  bool is_barred(Trial& trial);
  void on_ready(Trial& trial);
  void on_connected(Trial& trial);
  void on_protocol(Trial& trial);
  void on_answer(Trial& trial);
  void on_verdict(Trial& trial);
  void refuse(Trial& trial, const std::string& reason);
  void fail(Trial& trial, const std::string& trouble);
  bool is_trying() const noexcept;
  static std::string text(const Trial& trial);
  static std::size_t wanted_at(Stage stage) noexcept;

  ProgressThread& progress_;
  const Identity& identity_;
  const CongestionControl congestion_;
  const std::vector<IpAddress> from_;
  const Target target_;
  const std::uint16_t port_;
  const Events events_;
  std::vector<Trial> trials_;  ///< by place; does not grow
  std::string refusal_;
  std::size_t next_ = 0;
  Clock::time_point next_start_;
  std::chrono::milliseconds pause_;
};

}  // namespace weft::p2p
