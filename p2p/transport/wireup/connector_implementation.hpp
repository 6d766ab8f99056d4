// The implementation of Connector.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "p2p/progress/timer.hpp"
#include "p2p/transport/auth/record_cipher.hpp"
#include "p2p/transport/wireup/acceptor.hpp"
#include "p2p/transport/wireup/connect_attempt.hpp"
#include "p2p/transport/wireup/connector.hpp"
#include "p2p/transport/wireup/heartbeats.hpp"
#include "p2p/transport/wireup/stream.hpp"

namespace weft::p2p {

inline constexpr const char* kReachHint =
    "a firewall between the hosts? WEFT_IFACE names the network to use";

inline std::string seconds(std::chrono::nanoseconds span) {
  return fmt::format("{:g} s", std::chrono::duration<double>(span).count());
}

struct Connector::Implementation {
  /// Beats until the connection to a rank that was given up is closed, if that rank does not close
  /// it.
  static constexpr int kBeatsOfAGivenUp = 6 * Heartbeats::kPeriods;

  enum class State : std::uint8_t { idle, expecting, calling, met, ended };

  struct Peer {
    ConnectorAddress address;
    State state = State::idle;
    bool dropped = false;
    Clock::time_point give_up;
    std::unique_ptr<ConnectAttempt> attempt;
    std::map<int, std::unique_ptr<ConnectAttempt>> data_attempts;  ///< by rail
    std::map<int, std::unique_ptr<ConnectAttempt>> lost_rails;     ///< that are called again
    Clock::time_point data_give_up;
    bool any_rail_will_do = false;  ///< there are several, each called by its own network
    bool data_came = false;
    /// Stays when it is closed: its own events may close it.
    std::unique_ptr<Stream> stream;
    int beats_given_up = 0;  ///< left, until the connection to a rank given up is closed
  };

  Implementation(LocalRank& local_rank, ProgressThread& thread, ConnectorEvents& to,
                 const Config& config);

  Peer& peer(int rank) { return peers[static_cast<std::size_t>(rank)]; }
  void begin(int rank, State how);
  void call(int rank);
  /// By networks that the user has named, where the peer is on one of them.
  std::vector<IpAddress> addresses_of(const Peer& server) const;
  void call_for_data(int rank, int rail);
  void call_for_data_by(int rank, const std::vector<std::vector<IpAddress>>& shared);
  void call_again_for_data(int rank, int rail, const IpAddress& ip);
  std::unique_ptr<ConnectAttempt> data_attempt(int rank, int rail,
                                               const std::vector<IpAddress>& ips,
                                               bool keeps_trying);
  std::string on_client(const Handshake& client, const Handshake& own, os::Fd& socket);
  std::string on_called_for_data(const Handshake& client, const Handshake& own, os::Fd& socket);
  void meet(int rank, os::Fd socket, std::optional<RecordCipher> cipher);
  void on_stream_end(int rank, Stream::How how, const std::string& why);
  void stream_closed() noexcept;
  bool is_dead(int rank, int silent_periods);
  void close(int rank, const std::string& why);
  void run_errands();
  /// Whether the rank is still connecting.
  bool run_errand(int rank);
  bool run_data_errand(int rank);
  void leave_out_late_rails(int rank);
  std::function<void(const Error&)> say_short_of();
  bool is_connecting() const;
  void beat(std::uint64_t expired);
  void beat_given_up(Peer& p);

  LocalRank& local;
  ProgressThread& progress;
  ConnectorEvents& events;
  const std::chrono::nanoseconds init_timeout;
  const std::chrono::nanoseconds dead_after;
  const bool judges_silence;
  const bool encrypts;
  const std::string interface;
  const CongestionControl congestion;
  const std::string why_silent;
  std::vector<InterfaceAddress> own_addresses;
  std::vector<IpAddress> may_call_from;  ///< of the interfaces that were named; none: any
  ConnectorAddress own;
  NetworkAddresses networks{};  ///< of `own`
  Identity identity;
  std::vector<Peer> peers;  ///< by rank; does not grow once the job is open
  std::optional<Heartbeats> beats;
  int streams = 0;  ///< open ones
  Acceptor acceptor;
  Timer errands;    ///< while a rank is connecting
  Timer heartbeat;  ///< while a stream is open
};

}  // namespace weft::p2p
