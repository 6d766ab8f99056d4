#include "topology/discover/discover.hpp"

#include "topology/discover/hwloc/hwloc_machine.hpp"
#include "topology/discover/steps.hpp"

namespace weft::topology {

Model discover(const DiscoverOptions& options) {
  Model model;
  model.origin = Origin::live;
  const Files files(machine_root());
  HwlocMachine machine = hwloc_machine();
  if (!machine.problem.empty()) model.notes.push_back(machine.problem);
  model.packages = std::move(machine.packages);
  model.numa = std::move(machine.numa);
  model.distances = std::move(machine.distances);
  model.pci = std::move(machine.pci);
  discover_host(files, model);
  tell_memory_apart(files, model);
  describe_pci(files, model);
  discover_nics(files, {.rdma = machine.rdma, .nets = machine.nets}, model, options.count_gids);
  if (options.cuda) add_cuda(options.cuda(), model);
  if (options.nvml) add_gpu_links(options.nvml(), model);
  finish(model);
  return model;
}

}  // namespace weft::topology
