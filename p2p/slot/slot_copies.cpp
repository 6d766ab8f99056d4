// Ends that go while a GPU of this rank still copies into the owner's buffers.
#include <chrono>
#include <new>
#include <optional>

#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/slot/slot_table.hpp"

namespace weft::p2p {
namespace {

/// A GPU that works has ended all copies by then.
constexpr std::chrono::seconds kMostCopying{20};

}  // namespace

void SlotTable::say_detached(detail::RemoteEnd& remote) {
  // Until a GPU's copies have ended, the owner must not let another rank use the buffers.
  remote.leaving().unsent = remote.is_copying();
  if (remote.leaving().unsent)
    local_.want_service();
  else
    mesh_.send(remote.owner(), remote.detach_message());
}

bool SlotTable::end_copies() noexcept {
  std::vector<std::shared_ptr<detail::RemoteEnd>> copying;
  try {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, remote] : remotes_) copying.push_back(remote);
  } catch (const std::bad_alloc&) {
    return true;
  }
  const auto ended = [&]() -> std::optional<Status> {
    std::erase_if(copying, [](const auto& remote) { return !remote->is_copying(); });
    return copying.empty() ? std::optional<Status>(Status{}) : std::nullopt;
  };
  if (ended() || wait_for_device(local_, ended, Deadline::after(kMostCopying),
                                 [] { return stats::WaitAbout{}; }))
    return false;
  for (const auto& remote : copying)
    local_.log->error(Subsystem::slot,
                      "a GPU still copies into the slot of rank {} that this rank leaves: that "
                      "rank keeps the memory in quarantine",
                      remote->owner().rank);
  return true;
}

bool SlotTable::is_detach_due(const Peer& peer, const std::string& name) {
  std::vector<std::shared_ptr<detail::RemoteEnd>> leaving;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, remote] : remotes_)
      if (remote->leaving().unsent && &remote->owner() == &peer &&
          remote->attach_message().spec.name.get() == name)
        leaving.push_back(remote);
  }
  bool is_due = false;
  for (const auto& remote : leaving) {
    say_detached(*remote);
    is_due = remote->leaving().unsent || is_due;
  }
  return is_due;
}

}  // namespace weft::p2p
