// Connects to another process, again and again, until that process accepts or refuses.
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

/// Connects to rank 0 of an identity's job, on a thread of its own. Not thread-safe.
class RootConnection {
 public:
  /// The addresses to connect to, as far as they are known now.
  struct Where {
    std::vector<p2p::IpAddress> ips;  ///< if empty, `trouble` has the reason
    std::uint16_t port = 0;
    std::string trouble;
  };
  using Find = std::function<Where()>;

  /// An authenticated connection.
  struct Met {
    os::Fd socket;  ///< non-blocking
    p2p::Handshake own;
    p2p::Handshake server;
  };
  /// The outcome of wait(). Without `met`, either `refusal` is set (a process was reached and
  /// refused this one) or `trouble` (no process was reached in time).
  struct Outcome {
    std::optional<Met> met;
    std::string refusal;
    std::string trouble;
  };

  /// `identity` must outlive the object. Throws Error(system).
  RootConnection(const p2p::Identity& identity, p2p::Purpose purpose);
  ~RootConnection() { thread_.stop(); }
  RootConnection(const RootConnection&) = delete;
  RootConnection& operator=(const RootConnection&) = delete;

  /// Calls `find` before each attempt. Throws what `find` throws, and Error(exhausted) if this
  /// process runs out of descriptors.
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
  std::unique_ptr<p2p::ConnectAttempt> attempt_;  ///< belongs to the progress thread
  p2p::Timer ticks_;
  std::string trouble_ = "not tried";
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Met> met_;
  std::optional<std::string> refusal_;
  std::optional<Error> shortage_;
  bool has_no_listener_ = false;
};

}  // namespace weft::bootstrap
