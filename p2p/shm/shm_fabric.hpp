// Reaching the ranks of this host: Unix sockets to meet, shared memory from then on.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/os/fd.hpp"
#include "p2p/fabric.hpp"
#include "p2p/local_rank.hpp"
#include "p2p/progress/progress_thread.hpp"
#include "p2p/shm/link.hpp"
#include "p2p/shm/messages.hpp"
#include "p2p/shm/shm_channel.hpp"

namespace weft::p2p {

/// Of a pair the higher rank connects, to an abstract Unix socket; hello and welcome carry the
/// descriptors of both sides' memory. A peer's process is watched through its pidfd: its death is
/// seen at once, and what it had sent is read first.
class ShmFabric final : public Fabric {
 public:
  /// All three must outlive it; `progress` is the thread that `local` posts to.
  ShmFabric(LocalRank& local, ProgressThread& progress, FabricEvents& events);
  /// The progress thread must have stopped.
  ~ShmFabric() override;

  std::string_view name() const noexcept override { return "shm"; }
  FabricVerdict reaches(const RankAddress& own, const RankAddress& peer) const override;
  void listen(RankAddress& own) override;
  void open(const std::vector<RankAddress>& job) override;
  void connect(int rank) override;
  /// The process is killed: it may be stopped in the middle of a copy.
  bool fence(int rank) override;

 private:
  /// A rank's side of the meeting.
  struct Partner {
    int rank = -1;
    RankAddress address;
    os::Fd pidfd;
    std::vector<std::unique_ptr<Link>> links;  ///< two to oneself, else one
    ShmChannel* channel = nullptr;             ///< the mesh's
  };

  void call(Partner& partner);
  void accept_pending();
  void watch_process(Partner& partner);
  void on_end(Link& link);
  void drop_stranger(Link& link);

  void send_hello(Link& link, const Partner& partner, MessageType type, bool reaches);
  void on_adopted(Partner& partner, std::span<const std::byte> bytes);
  void on_message(Link& link, std::span<const std::byte> bytes, std::vector<os::Fd> descriptors);
  void on_introduction(Link& link, std::span<const std::byte> bytes,
                       std::vector<os::Fd> descriptors);
  void on_chunk(Partner& partner, std::span<const std::byte> bytes,
                std::vector<os::Fd> descriptors);
  /// Why a hello or welcome is not to be believed, or an empty string.
  std::string distrust(const HelloMessage& hello, const Link& link, std::size_t descriptors) const;
  void greet(Partner& partner, Link& link, const HelloMessage& hello,
             std::vector<os::Fd> descriptors);
  std::array<std::byte, 32> mac(int from, int to) const;

  LocalRank& local_;
  ProgressThread& progress_;
  FabricEvents& events_;
  os::Fd listener_;
  const bool cross_memory_;  ///< WEFT_CROSS_MEMORY
  const std::uint64_t probe_ = kProbe;
  std::array<std::byte, 32> job_secret_{};
  std::vector<Partner> partners_;                 ///< by rank; does not grow once the job is open
  std::vector<std::unique_ptr<Link>> strangers_;  ///< accepted, not yet introduced
  AdoptedMemory::Listener released_;              ///< goes first, since it uses the others
};

}  // namespace weft::p2p
