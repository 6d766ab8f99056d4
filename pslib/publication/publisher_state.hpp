// A rank's subscribers, and the thread that answers them.
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
#include "pslib/publication/publication_state.hpp"
#include "pslib/publication/session.hpp"
#include "pslib/publication/subscriber_settings.hpp"
#include "runtime/subscribe/subscriber_acceptor.hpp"
#include "runtime/world/services.hpp"
#include "weft/publication.hpp"
#include "weft/world.hpp"

namespace weft::pslib::detail {

class PublisherState {
 public:
  PublisherState(const World& world, const PublisherOptions& options,
                 const SubscriberSettings& settings);
  ~PublisherState();
  PublisherState(const PublisherState&) = delete;
  PublisherState& operator=(const PublisherState&) = delete;

  std::shared_ptr<PublicationState> publication(const std::string& name,
                                                std::vector<PublishedTensor> specs,
                                                const PublicationOptions& options);
  Status leave(Deadline deadline);

  bool over() const noexcept { return !weft::over(world_, "").ok(); }
  Status refusal(const char* operation) const noexcept { return weft::over(world_, operation); }
  bool is_fork() const noexcept { return weft::is_fork(world_); }
  const std::string& address() const noexcept { return acceptor_.address(); }
  int subscribers() const noexcept { return subscribers_.load(); }
  std::uint64_t rejected_connections() const noexcept { return acceptor_.rejected_connections(); }

 private:
  /// Lets publications wake the thread; outlives the publisher if necessary.
  struct Wakeup {
    std::mutex mutex;
    PublisherState* publisher = nullptr;  ///< null once the publisher is destroyed
  };

  std::string on_came(os::Fd& socket);
  void on_ended(int subscriber, const std::string& why);
  std::shared_ptr<PublicationState> find(const std::string& name);
  std::string names();
  void look();
  void forget_closed();

  World world_;
  const std::shared_ptr<Log> log_;
  const std::size_t most_subscribers_;
  const std::chrono::nanoseconds timeout_;
  const std::shared_ptr<Wakeup> bell_;
  std::mutex mutex_;  ///< guards publications_
  std::map<std::string, std::shared_ptr<PublicationState>> publications_;
  std::condition_variable gone_;
  std::mutex gone_mutex_;
  bool has_told_ = false;  ///< subscribers know that it leaves; guarded by gone_mutex_
  std::atomic<int> subscribers_{0};
  p2p::ProgressThread thread_;
  // The publisher's thread only.
  struct Subscriber {
    Session::Events events;
    std::unique_ptr<Session> session;
  };
  std::map<int, Subscriber> sessions_;  ///< by subscriber number
  int next_subscriber_ = 0;
  bool is_leaving_ = false;
  subscribe::SubscriberAcceptor acceptor_;
};

}  // namespace weft::pslib::detail
