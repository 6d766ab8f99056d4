// All signals and remote signals of this rank, and the control messages about them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/signal/signal_messages.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/signal.hpp"

namespace weft::p2p {

class SignalTable;

/// A signal's cache line in its owner's control arena.
struct alignas(64) SignalLine {
  std::atomic<std::uint64_t> word;
  std::atomic<std::uint64_t> closed;
};

}  // namespace weft::p2p

namespace weft::detail {

class SignalState {
 public:
  SignalState(p2p::SignalTable& table, std::string name, std::uint64_t id, std::uint64_t value);

  p2p::SignalLine& line() const noexcept {
    return *reinterpret_cast<p2p::SignalLine*>(block.data());
  }
  std::uint64_t apply(p2p::SignalAct act, std::uint64_t operand, std::uint64_t expected) noexcept;

  p2p::SignalTable& table;
  const std::string name;
  const std::uint64_t id;
  p2p::OwnedBlock block;
  std::vector<int> needs;
  /// Peers that know the word, once per remote end. The word's memory is kept until they have
  /// detached or are gone, since they may still write it. Only the progress thread changes the
  /// list, under the table's mutex.
  std::vector<const p2p::Peer*> known_to;
};

class RemoteSignalState {
 public:
  enum class Answer : std::uint8_t { none, granted, broken };
  struct Reply {
    std::uint64_t before = 0;
    bool closed = false;
  };

  RemoteSignalState(p2p::SignalTable& table, p2p::Peer& owner, std::string name, std::uint64_t id)
      : table(table), owner(owner), name(std::move(name)), id(id) {}

  p2p::SignalTable& table;
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

class SignalTable {
 public:
  SignalTable(LocalRank& local, Mesh& mesh) : local_(local), mesh_(mesh) {}

  // Application threads.
  std::shared_ptr<detail::SignalState> expose(const std::string& name, std::uint64_t value);
  void close(std::shared_ptr<detail::SignalState> signal) noexcept;
  Result<std::uint64_t> wait_at_least(const detail::SignalState& signal, std::uint64_t least,
                                      Deadline deadline) const noexcept;
  std::shared_ptr<detail::RemoteSignalState> attach(int owner, const std::string& name,
                                                    Deadline deadline);
  void detach(const std::shared_ptr<detail::RemoteSignalState>& remote) noexcept;
  /// Adds without waiting for a reply.
  Status add(detail::RemoteSignalState& remote, std::uint64_t amount) noexcept;
  Result<std::uint64_t> act(detail::RemoteSignalState& remote, SignalAct act, std::uint64_t operand,
                            std::uint64_t expected, Deadline deadline) noexcept;
  LocalRank& local() const noexcept { return local_; }
  Mesh& mesh() const noexcept { return mesh_; }
  Status failure(Code code, const char* operation, const std::string& name, int peer,
                 std::string_view message, std::string_view hint) const noexcept;

  // Progress thread.
  static bool understands(MessageType type) noexcept {
    return type >= MessageType::signal_wanted && type <= MessageType::signal_reply;
  }
  void on_message(Peer& peer, std::span<const std::byte> bytes);
  /// The peer is gone, and none of its writes can arrive any more.
  void on_gone(const Peer& peer);

 private:
  struct Waiting {  ///< an attach to a signal that is not exposed yet
    Peer* peer;
    std::uint64_t remote_id;
  };
  static constexpr std::size_t kMostWaiting = 65'536;

  void grant(Peer& peer, std::uint64_t remote_id, detail::SignalState& signal);
  void on_wanted(Peer& peer, const SignalWanted& wanted);
  void on_granted(Peer& peer, const SignalGranted& granted);
  void on_request(Peer& peer, const SignalRequest& request);
  void on_reply(Peer& peer, const SignalReply& reply);
  void on_left(const Peer& peer, std::uint64_t signal_id);
  /// Frees a closed signal that no peer knows any more.
  void release(const std::shared_ptr<detail::SignalState>& signal);
  std::shared_ptr<detail::SignalState> signal(std::uint64_t id) const;
  /// Names the ranks that a wait may still expect an addition from; `peer`: the first of them.
  std::string adders(const detail::SignalState& signal, int& peer) const;
  void check_name(const char* operation, const std::string& name) const;
  Status gone(const char* operation, const detail::RemoteSignalState& remote) const noexcept;
  std::shared_ptr<detail::RemoteSignalState> remote(const Peer& peer, std::uint64_t id) const;

  LocalRank& local_;
  Mesh& mesh_;
  mutable std::mutex mutex_;  ///< guards the members below; never held during a wait
  std::map<std::string, std::shared_ptr<detail::SignalState>> by_name_;
  std::unordered_map<std::uint64_t, std::shared_ptr<detail::SignalState>>
      signals_;  ///< closed ones too
  std::unordered_map<std::uint64_t, std::shared_ptr<detail::RemoteSignalState>> remotes_;
  std::uint64_t next_id_ = 1;
  std::multimap<std::string, Waiting> waiting_;
};

}  // namespace weft::p2p
