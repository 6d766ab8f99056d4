// N worlds as threads of one process: the same code path as N processes, for tests and sanitizers.
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

/// A job whose ranks are threads. Ranks share one mapping of each arena, so that a thread sanitizer
/// sees every access through one address.
/// Must outlive its worlds. Thread-safety: join() from one thread per rank.
class InProcessJob {
 public:
  /// The verbs library as a rank has it, in place of the machine's.
  using VerbsOf = std::function<std::shared_ptr<p2p::verbs::Verbs>(int rank)>;

  /// As p2p::MakeFabrics: the fabrics of a rank, in place of the machine's.
  using FabricsOf =
      std::function<std::vector<std::unique_ptr<p2p::Fabric>>(p2p::LocalRank&, p2p::FabricEvents&)>;

  explicit InProcessJob(int size, Config config = Config(), VerbsOf verbs = {},
                        FabricsOf fabrics = {});
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
void run_ranks(int size, const std::function<void(World&)>& body, const Config& config = Config(),
               const InProcessJob::VerbsOf& verbs = {},
               const InProcessJob::FabricsOf& fabrics = {});

}  // namespace weft
