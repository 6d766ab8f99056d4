// Brings the queue pairs of all peers up by the connection manager (WEFT_CONNECT=cm).
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/log.hpp"
#include "p2p/progress/timer.hpp"
#include "p2p/transport/verbs/cm/cm_connection.hpp"
#include "p2p/transport/verbs/cm/own_ip.hpp"

namespace weft::p2p::verbs {

/// In a pair the higher rank calls, once for each of its queue pairs, where the other listens; both
/// have met by the connector and have told each other a token. A caller without it is turned
/// away, and nothing is kept of it. The ids stay until the peer is dropped: with iWARP they hold
/// the connection. Progress thread only, but for the constructor.
class CmConnector {
 public:
  /// From handling an event or the passing of time, never from within a call.
  struct Events {
    /// All queue pairs of the rank are ready.
    std::function<void(int rank)> up;
    /// They are not and won't be, or are no more; nothing of the rank follows.
    std::function<void(int rank, const Status& why)> failed;
  };
  struct Options {
    int rank = 0;                         ///< this one
    std::chrono::nanoseconds patience{};  ///< for a peer's queue pairs
  };

  /// Listens; all references must outlive it. Throws Error(unreachable | system): the connection
  /// manager can't be used, and what it needs.
  CmConnector(std::shared_ptr<ConnectionManager> manager, Device& device, ProgressThread& progress,
              Log& log, Options options, Events events);
  /// The progress thread must have stopped.
  ~CmConnector();

  /// Progress thread, before the calls below: from now on calls are handled.
  void open();

  /// Where this rank is called, for its address.
  void describe(VerbsAddress& own) const noexcept;

  /// Makes ready for the rank's queue pairs, in state INIT, which must live until drop(). The token
  /// is what the rank must call or answer with. `peers`: of the whole job.
  Token expect(int rank, std::span<ibv_qp* const> pairs);
  /// The rank has told where it is, and its token: calls it, or answers its calls.
  void connect(int rank, const VerbsAddress& peer, const Token& token);
  /// Its connections end; no event follows.
  void drop(int rank) noexcept;
  /// Calls that bore no token of a rank.
  std::uint64_t rejected_connections() const noexcept { return rejected_connections_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Party {
    Token token{};                          ///< this rank's for it
    std::vector<CmConnection> connections;  ///< by queue pair
    bool is_up = false;
    std::optional<Clock::time_point> give_up;
  };
  using Parties = std::map<int, Party>;

  void read_events();
  void handle(const rdma_cm_event& event);
  void on_call(const rdma_cm_event& event);
  /// An event of a queue pair's id.
  void on_event(Parties::value_type& peer, std::size_t index, const rdma_cm_event& event);
  CmConnection* who_calls(const rdma_cm_event& event, int& rank, std::size_t& index);
  void look_if_up(int rank, Party& party);
  void give_up_after(Party& party, std::chrono::nanoseconds span);
  void tick();

  const std::shared_ptr<ConnectionManager> manager_;
  Device& device_;
  ProgressThread& progress_;
  Log& log_;
  const Options options_;
  const Events events_;
  ConnectionEvents channel_;
  Listener listener_;
  Parties parties_;  ///< by rank
  std::uint64_t rejected_connections_ = 0;
  std::optional<Timer> timer_;  ///< once open
};

}  // namespace weft::p2p::verbs
