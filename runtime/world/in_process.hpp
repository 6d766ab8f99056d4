// Runs N worlds as threads of one process: the same code path as N processes, for tests and
// sanitizers.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/config.hpp"
#include "weft/world.hpp"

namespace weft::p2p {
class Fabric;
class FabricEvents;
class LocalRank;
}  // namespace weft::p2p
namespace weft::p2p::verbs {
class Verbs;
}

namespace weft {

/// A job whose ranks are threads. The ranks share one mapping of each arena, so that a thread
/// sanitizer sees every access through one address. The job must outlive its worlds. Thread-safety:
/// one thread per rank may call join() at the same time.
class InProcessJob {
 public:
  /// Returns the verbs library for `rank`, which replaces the machine's library.
  using VerbsOf = std::function<std::shared_ptr<p2p::verbs::Verbs>(int rank)>;

  /// As p2p::MakeFabrics: the fabrics of a rank, in place of the machine's.
  using FabricsOf =
      std::function<std::vector<std::unique_ptr<p2p::Fabric>>(p2p::LocalRank&, p2p::FabricEvents&)>;

  explicit InProcessJob(int size, Config config = Config(), VerbsOf verbs = {},
                        FabricsOf fabrics = {});
  ~InProcessJob();
  InProcessJob(const InProcessJob&) = delete;
  InProcessJob& operator=(const InProcessJob&) = delete;

  /// Joins as `rank`. Blocks until every rank has joined, or throws Error(timeout) after
  /// WEFT_INIT_TIMEOUT.
  World join(int rank);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

/// Runs `body` as every rank of an in-process job, one thread per rank. Once all have ended,
/// rethrows the first exception that a rank ended with.
void run_ranks(int size, const std::function<void(World&)>& body, const Config& config = Config(),
               const InProcessJob::VerbsOf& verbs = {},
               const InProcessJob::FabricsOf& fabrics = {});

}  // namespace weft
