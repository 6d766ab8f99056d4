#include "topology/discover/discover.hpp"

#include "topology/discover/steps.hpp"

namespace weft::topology {

Model discover(const DiscoverOptions& options) {
  Model model;
  model.origin = Origin::live;
  const Files files(options.root);
  discover_host(files, model);
  discover_memory(files, model);
  discover_pci(files, model);
  discover_nics(files, model, options.count_gids);
  if (options.cuda) add_cuda(options.cuda(), model);
  if (options.nvml) add_gpu_links(options.nvml(), model);
  finish(model);
  return model;
}

}  // namespace weft::topology
