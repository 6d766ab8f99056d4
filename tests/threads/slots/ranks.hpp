// Common parts of the slot tests: their job's settings, a meeting point, the error that a call
// threw.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <ostream>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/config.hpp"
#include "runtime/world/in_process.hpp"
#include "weft/world.hpp"

namespace weft {

/// How GoogleTest prints a code.
inline void PrintTo(Code code, std::ostream* out) { *out << name(code); }

}  // namespace weft

namespace weft::tests {

/// Waits end soon enough for a stuck test to say where it is stuck; small chunks keep many short
/// jobs quick.
inline Config settings() {
  return Config().with(Setting::timeout, "20s").with(Setting::arena_chunk, "4m");
}

/// A barrier of all ranks of a job, without weft. If a rank has failed and does not come, the
/// others' wait ends with an exception.
class Meeting {
 public:
  explicit Meeting(int ranks) : ranks_(ranks) {}

  void wait() {
    std::unique_lock lock(mutex_);
    const auto round = round_;
    if (++arrived_ == ranks_) {
      arrived_ = 0;
      ++round_;
      everybody_.notify_all();
      return;
    }
    if (!everybody_.wait_for(lock, std::chrono::seconds(30), [&] { return round_ != round; }))
      throw std::runtime_error("another rank did not come to the meeting");
  }

 private:
  std::mutex mutex_;
  std::condition_variable everybody_;
  const int ranks_;
  int arrived_ = 0;
  int round_ = 0;
};

/// The error that `call` threw; code ok if it threw none.
template <typename Call>
ErrorDetail thrown_by(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.detail();
  }
  ErrorDetail none;
  none.code = Code::ok;
  return none;
}

/// Polls until `holds` does, for at most five seconds.
template <typename Condition>
bool soon(Condition&& holds) {
  const auto end = Deadline::after(std::chrono::seconds(5));
  while (!holds()) {
    if (end.passed()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace weft::tests
