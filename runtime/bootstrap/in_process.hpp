// N worlds as threads of one process: the same code path as N processes, for tests and sanitizers.
#pragma once

#include <functional>
#include <memory>

#include "base/config.hpp"
#include "weft/world.hpp"

namespace weft {

/// A job whose ranks are threads. Ranks share one mapping of each arena, so that a thread sanitizer
/// sees every access through one address.
/// Must outlive its worlds. Thread-safety: join() from one thread per rank.
class InProcessJob {
 public:
  explicit InProcessJob(int size, Config config = Config());
  ~InProcessJob();
  InProcessJob(const InProcessJob&) = delete;
  InProcessJob& operator=(const InProcessJob&) = delete;

  /// Joins as `rank`; blocks until every rank has joined (or WEFT_INIT_TIMEOUT).
  World join(int rank);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

/// Runs `body` as every rank of an in-process job, a thread each, and rethrows the first exception
/// that a rank ended with, once all have ended.
void run_ranks(int size, const std::function<void(World&)>& body, const Config& config = Config());

}  // namespace weft
