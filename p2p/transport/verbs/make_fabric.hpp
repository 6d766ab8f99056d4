// The RDMA fabric, for who needs to know nothing else of it. No type of the verbs library shows
// here.
#pragma once

#include <memory>

#include "base/config.hpp"
#include "p2p/progress/progress_thread.hpp"
#include "p2p/transport/fabric.hpp"
#include "p2p/transport/local_rank.hpp"

namespace weft::p2p::verbs {

class Verbs;

/// The fabric of this rank; its arguments must outlive it. `verbs` is used in place of the
/// machine's own library. Null where weft was built without.
std::unique_ptr<Fabric> make_fabric(LocalRank& local, ProgressThread& progress,
                                    FabricEvents& events, const Config& config,
                                    std::shared_ptr<Verbs> verbs = nullptr);

}  // namespace weft::p2p::verbs
