// A process calls another one, again and again, until it is let in or refused.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "p2p/progress/progress_thread.hpp"
#include "p2p/progress/timer.hpp"
#include "p2p/transport/wireup/connect_attempt.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"

namespace weft::bootstrap {

/// Calls rank 0 of an identity's job, on a thread of its own. One thread at a time.
class RootConnection {
 public:
  /// Where to call, as far as is known now.
  struct Where {
    std::vector<p2p::IpAddress> ips;  ///< none: `trouble` says why
    std::uint16_t port = 0;
    std::string trouble;
  };
  using Find = std::function<Where()>;

  /// A connection whose ends authenticate each other.
  struct Met {
    os::Fd socket;  ///< does not block
    p2p::Hello own;
    p2p::Hello server;
  };
  /// How it ended. Of `refusal` (somebody was reached who does not want this one) and `trouble`
  /// (nobody was in time) one is there where `met` is not.
  struct Outcome {
    std::optional<Met> met;
    std::string refusal;
    std::string trouble;
  };

  /// `identity` must outlive it. Throws Error(system).
  RootConnection(const p2p::Identity& identity, p2p::Purpose purpose);
  ~RootConnection() { thread_.stop(); }
  RootConnection(const RootConnection&) = delete;
  RootConnection& operator=(const RootConnection&) = delete;

  /// Asks `find` before each call. Throws what it throws, and Error(exhausted) when this process
  /// lacks descriptors.
  Outcome wait(const Find& find, Deadline deadline);

 private:
  std::optional<Met> call(const Where& where, Deadline deadline);
  void tick();
  void hang_up();
  template <typename Change>
  void change(const Change& make) {
    const std::lock_guard lock(mutex_);
    make();
    changed_.notify_all();
  }

  const p2p::Identity& identity_;
  const p2p::Purpose purpose_;
  p2p::ProgressThread thread_;
  std::unique_ptr<p2p::ConnectAttempt> attempt_;  ///< the progress thread's
  p2p::Timer ticks_;
  std::string trouble_ = "not tried";
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Met> met_;
  std::optional<std::string> refusal_;
  std::optional<Error> shortage_;
  bool is_nobody_there_ = false;
};

}  // namespace weft::bootstrap
