#include "p2p/transport/verbs/make_fabric.hpp"

#include "p2p/transport/verbs/api/load.hpp"
#include "p2p/transport/verbs/verbs_fabric.hpp"

namespace weft::p2p::verbs {

std::unique_ptr<Fabric> make_fabric(LocalRank& local, ProgressThread& progress,
                                    FabricEvents& events, const Config& config,
                                    std::shared_ptr<Verbs> verbs) {
  std::string why_not;
  // Asking for the library may load it: not for a job that wants no RDMA.
  const bool wanted = local.allows(FabricKind::verbs);
  if (!verbs && wanted) verbs = load_verbs(why_not);
  return std::make_unique<VerbsFabric>(local, progress, events, config, std::move(verbs),
                                       std::move(why_not));
}

}  // namespace weft::p2p::verbs
