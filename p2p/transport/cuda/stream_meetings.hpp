// The meetings of streams that a rank takes part in, and the memory that is pinned for them.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "p2p/transport/cuda/pinned_mapping.hpp"
#include "p2p/transport/cuda/stream_meeting.hpp"

namespace weft::p2p::cuda {

/// Thread-safe.
class StreamMeetings {
 public:
  /// Lets go of meetings of earlier worlds whose graphs have gone since.
  StreamMeetings() { StreamMeeting::reap(); }
  StreamMeetings(const StreamMeetings&) = delete;
  StreamMeetings& operator=(const StreamMeetings&) = delete;
  /// Lets go of meetings that no stream and no graph uses any more.
  ~StreamMeetings() { StreamMeeting::reap(); }

  /// Keeps the meeting in sight of any_under_way(), as long as its owner has it.
  void add(const std::shared_ptr<StreamMeeting>& meeting);
  /// Whether a stream of this rank may wait for another rank.
  bool any_under_way() const noexcept;
  /// Pins a mapping, until this object goes at the earliest. `memory` keeps it. Requires, for the
  /// first time, that no stream waits. Throws Error.
  std::shared_ptr<const PinnedMapping> pin(const char* operation, const std::shared_ptr<Gpu>& gpu,
                                           std::shared_ptr<const void> memory, std::byte* data,
                                           std::size_t bytes);

 private:
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<StreamMeeting>> meetings_;
  std::map<std::byte*, std::shared_ptr<const PinnedMapping>> pinned_;
};

}  // namespace weft::p2p::cuda
