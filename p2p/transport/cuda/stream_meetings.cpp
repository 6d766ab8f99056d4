#include "p2p/transport/cuda/stream_meetings.hpp"

#include <algorithm>
#include <utility>

namespace weft::p2p::cuda {

void StreamMeetings::add(const std::shared_ptr<StreamMeeting>& meeting) {
  const std::lock_guard lock(mutex_);
  std::erase_if(meetings_, [](const auto& known) { return known.expired(); });
  meetings_.push_back(meeting);
}

bool StreamMeetings::any_under_way() const noexcept {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(meetings_, [](const auto& known) {
    const auto meeting = known.lock();
    return meeting != nullptr && meeting->is_under_way();
  });
}

std::shared_ptr<const PinnedMapping> StreamMeetings::pin(const char* operation,
                                                         const std::shared_ptr<Gpu>& gpu,
                                                         std::shared_ptr<const void> memory,
                                                         std::byte* data, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto& pin = pinned_[data];
  if (pin == nullptr)
    pin = std::make_shared<const PinnedMapping>(operation, gpu, std::move(memory), data, bytes);
  return pin;
}

}  // namespace weft::p2p::cuda
