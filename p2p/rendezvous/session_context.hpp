// The ranks and the rendezvous that a session belongs to, for all of its parts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/rendezvous/rendezvous_messages.hpp"
#include "p2p/slot/slot_table.hpp"
#include "p2p/transport/counters.hpp"
#include "p2p/transport/local_rank.hpp"
#include "weft/rendezvous.hpp"

namespace weft::p2p::rendezvous {

/// The parts of a session share this. A SessionLock guards `changed` and complain().
struct SessionContext {
  static constexpr std::uint32_t kDepth = 64;  ///< most messages under way per direction

  LocalRank& local;
  Mesh& mesh;
  SlotTable& slots;
  Peer& peer;
  const RendezvousSpec& spec;
  const std::string& shared_name;

  bool changed = false;  ///< other threads may wait for something this turn has changed
  bool complained = false;
  EdgeCounters sent{};
  EdgeCounters received{};
  GpuCounters sent_from_gpu{};
  GpuCounters received_to_gpu{};

  /// The slot that takes the messages of rank `from`.
  SlotSpec message_slot(int from) const;
  /// An error of `operation` about one tensor.
  Status failure(Code code, const char* operation, const KeyStep& at, std::string_view message,
                 std::string_view hint) const noexcept;
  /// Reports a message to the spec's observer.
  void observe(RendezvousMessage message, bool sent_here, const KeyStep& at, bool by_name = false,
               bool with_metadata = false) const;
  /// Logs the first violation of the protocol by the peer.
  void complain(const char* what) noexcept;
  /// Adds the counters of both directions.
  void report(std::vector<EdgeReport>& edges) const;
};

}  // namespace weft::p2p::rendezvous
