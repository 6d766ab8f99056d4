// The ends of other ranks' signals on this rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "p2p/mesh/mesh.hpp"
#include "p2p/signal/signal_line.hpp"
#include "p2p/signal/signal_messages.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/signal.hpp"

namespace weft::p2p {
class RemoteSignals;
}

namespace weft::detail {

class RemoteSignalState {
 public:
  enum class Answer : std::uint8_t { none, granted, broken };
  struct Reply {
    std::uint64_t before = 0;
    bool closed = false;
  };

  RemoteSignalState(p2p::RemoteSignals& table, p2p::Peer& owner, std::string name, std::uint64_t id)
      : table(table), owner(owner), name(std::move(name)), id(id) {}

  bool over() const noexcept;
  Status refusal(const char* operation) const noexcept;

  p2p::RemoteSignals& table;
  p2p::Peer& owner;
  const std::string name;
  const std::uint64_t id;
  std::atomic<Answer> answer{Answer::none};
  // Set before `answer`.
  std::uint64_t signal_id = 0;
  p2p::SignalLine* direct = nullptr;  ///< null: reached by messages

  std::uint64_t asked = 0;  ///< requests so far
  std::atomic<std::uint64_t> answered{0};
  Reply reply;  ///< set before `answered`; the reply to request `answered`
};

}  // namespace weft::detail

namespace weft::p2p {

class RemoteSignals {
 public:
  RemoteSignals(LocalRank& local, Mesh& mesh) : local_(local), mesh_(mesh) {}

  // Application threads.
  std::shared_ptr<detail::RemoteSignalState> attach(int owner, const std::string& name,
                                                    Deadline deadline);
  void detach(const detail::RemoteSignalState& remote) noexcept;
  /// Adds without waiting for a reply.
  Status add(detail::RemoteSignalState& remote, std::uint64_t amount) noexcept;
  Result<std::uint64_t> act(detail::RemoteSignalState& remote, SignalAct act, std::uint64_t operand,
                            std::uint64_t expected, Deadline deadline) noexcept;
  LocalRank& local() const noexcept { return local_; }
  Status failure(Code code, const char* operation, const detail::RemoteSignalState& remote,
                 std::string_view message, std::string_view hint) const noexcept;

  // Progress thread.
  void on_granted(Peer& peer, const SignalGranted& granted);
  void on_reply(Peer& peer, const SignalReply& reply);

 private:
  Status gone(const char* operation, const detail::RemoteSignalState& remote) const noexcept;
  std::shared_ptr<detail::RemoteSignalState> remote(const Peer& peer, std::uint64_t id) const;

  LocalRank& local_;
  Mesh& mesh_;
  mutable std::mutex mutex_;  ///< guards the members below; never held during a wait
  std::unordered_map<std::uint64_t, std::shared_ptr<detail::RemoteSignalState>> remotes_;
  std::uint64_t next_id_ = 1;
};

}  // namespace weft::p2p
