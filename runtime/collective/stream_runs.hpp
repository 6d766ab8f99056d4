// The state of a plan that streams run.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "p2p/memory/arena.hpp"
#include "p2p/transport/cuda/peer_work.hpp"
#include "p2p/transport/cuda/stream_meeting.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"
#include "weft/tensor.hpp"

namespace weft::detail {

struct PlannedCall;

/// How long a rank whose runs another one has ended waits for the reason at most.
constexpr std::chrono::seconds kReasonComes{1};

struct StreamRuns {
  StreamRuns() = default;
  StreamRuns(const StreamRuns&) = delete;
  StreamRuns& operator=(const StreamRuns&) = delete;
  ~StreamRuns() {
    if (meeting != nullptr) (void)meeting->close();
    p2p::cuda::StreamMeeting::leave(std::move(meeting));
  }

  // The application's thread.
  std::shared_ptr<PlannedCall> preparation{};  ///< under way
  bool is_decided = false;                     ///< by all ranks; without a meeting: refused
  bool may_pass = false;                       ///< the refusal, on all ranks: each call asks anew
  std::string refusal{};                       ///< why this rank's streams don't run it

  // During the preparation.
  std::shared_ptr<const p2p::OwnedBlock> words{};
  std::vector<std::uint32_t*> partners{};
  std::vector<std::shared_ptr<const p2p::cuda::PinnedMapping>> pins{};

  // Once it is decided.
  std::shared_ptr<p2p::cuda::StreamMeeting> meeting{};
  std::vector<p2p::cuda::PeerReduction> work{};

  // Guarded by the group's mutex.
  std::vector<Tensor> held{};  ///< memory that runs touch, this rank's and others'
  std::string text{};          ///< of the call
  std::chrono::nanoseconds limit{};
  std::uint64_t seen = 0;  ///< runs that had begun when they were looked at last
  Clock::time_point since{};
  std::optional<Clock::time_point> ended_at{};  ///< by another rank, which has not said why yet
  bool is_left = false;                         ///< the plan or the group has gone
};

}  // namespace weft::detail
