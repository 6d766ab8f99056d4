// The signals that this rank exposes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/signal/signal_line.hpp"
#include "p2p/signal/signal_messages.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/signal.hpp"

namespace weft::p2p {
class ExposedSignals;
}  // namespace weft::p2p

namespace weft::detail {

class SignalState {
 public:
  SignalState(p2p::ExposedSignals& table, std::string name, std::uint64_t id, std::uint64_t value);

  p2p::SignalLine& line() const noexcept {
    return *reinterpret_cast<p2p::SignalLine*>(block.data());
  }
  bool over() const noexcept;
  Status refusal(const char* operation) const noexcept;
  std::uint64_t apply(p2p::SignalAct act, std::uint64_t operand, std::uint64_t expected) noexcept;

  p2p::ExposedSignals& table;
  const std::string name;
  const std::uint64_t id;
  p2p::OwnedBlock block;
  std::vector<int> needs;
  /// Peers that know the word, once per remote end. The word's memory is kept until they have
  /// detached or are gone, since they may still write it. Only the progress thread changes the
  /// list, under the table's mutex.
  std::vector<const p2p::Peer*> known_to;
};

}  // namespace weft::detail

namespace weft::p2p {

class ExposedSignals {
 public:
  ExposedSignals(LocalRank& local, Mesh& mesh) : local_(local), mesh_(mesh) {}

  // Application threads.
  std::shared_ptr<detail::SignalState> expose(const std::string& name, std::uint64_t value);
  void close(const detail::SignalState& signal) noexcept;
  Result<std::uint64_t> wait_at_least(const detail::SignalState& signal, std::uint64_t least,
                                      Deadline deadline) const noexcept;
  LocalRank& local() const noexcept { return local_; }
  Mesh& mesh() const noexcept { return mesh_; }

  // Progress thread.
  void on_wanted(Peer& peer, const SignalWanted& wanted);
  void on_request(Peer& peer, const SignalRequest& request);
  void on_left(const Peer& peer, std::uint64_t signal_id);
  /// The peer is gone, and none of its writes can arrive any more.
  void on_gone(const Peer& peer);

 private:
  struct Waiting {  ///< an attach to a signal that is not exposed yet
    Peer* peer;
    std::uint64_t remote_id;
  };
  static constexpr std::size_t kMostWaiting = 65'536;

  void grant(Peer& peer, std::uint64_t remote_id, detail::SignalState& signal);
  /// Frees a closed signal that no peer knows any more.
  void release(const std::shared_ptr<detail::SignalState>& signal);
  std::shared_ptr<detail::SignalState> signal(std::uint64_t id) const;
  /// Names the ranks that a wait may still expect an addition from; `peer`: the first of them.
  std::string adders(const detail::SignalState& signal, int& peer) const;

  LocalRank& local_;
  Mesh& mesh_;
  mutable std::mutex mutex_;  ///< guards the members below; never held during a wait
  std::map<std::string, std::shared_ptr<detail::SignalState>> by_name_;
  std::unordered_map<std::uint64_t, std::shared_ptr<detail::SignalState>>
      signals_;  ///< closed ones too
  std::uint64_t next_id_ = 1;
  std::multimap<std::string, Waiting> waiting_;
};

}  // namespace weft::p2p
