// A rank's guests, and the thread that answers them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "p2p/progress/progress_thread.hpp"
#include "pslib/publication/guest_settings.hpp"
#include "pslib/publication/publication_state.hpp"
#include "pslib/publication/session.hpp"
#include "runtime/subscribe/guest_door.hpp"
#include "weft/publication.hpp"
#include "weft/world.hpp"

namespace weft::pslib::detail {

class PublisherState {
 public:
  PublisherState(World& world, const PublisherOptions& options, const GuestSettings& settings);
  ~PublisherState();
  PublisherState(const PublisherState&) = delete;
  PublisherState& operator=(const PublisherState&) = delete;

  std::shared_ptr<PublicationState> publication(const std::string& name,
                                                std::vector<PublishedTensor> specs,
                                                const PublicationOptions& options);
  Status leave(Deadline deadline);

  World& world() const noexcept { return world_; }
  const std::string& address() const noexcept { return door_.address(); }
  int guests() const noexcept { return guests_.load(); }
  std::uint64_t turned_away() const noexcept { return door_.turned_away(); }

 private:
  /// What publications wake the thread by; they may outlive it.
  struct Bell {
    std::mutex mutex;
    PublisherState* publisher = nullptr;  ///< null once it is gone
  };

  std::string on_came(os::Fd& socket);
  void on_ended(int guest, const std::string& why);
  std::shared_ptr<PublicationState> find(const std::string& name);
  std::string names();
  void look();
  void forget_closed();

  World& world_;
  const std::shared_ptr<Log> log_;
  const std::size_t most_guests_;
  const std::chrono::nanoseconds timeout_;
  const std::shared_ptr<Bell> bell_;
  std::mutex mutex_;  ///< guards publications_
  std::map<std::string, std::shared_ptr<PublicationState>> publications_;
  std::condition_variable gone_;
  std::mutex gone_mutex_;
  bool has_told_ = false;  ///< the guests that it leaves; by gone_mutex_
  std::atomic<int> guests_{0};
  p2p::ProgressThread thread_;
  // The thread's.
  struct Guest {
    Session::Events events;
    std::unique_ptr<Session> session;
  };
  std::map<int, Guest> sessions_;  ///< by number
  int next_guest_ = 0;
  bool is_leaving_ = false;
  guest::GuestDoor door_;
};

}  // namespace weft::pslib::detail
