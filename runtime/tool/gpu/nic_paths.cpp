#include "runtime/tool/gpu/nic_paths.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/log.hpp"
#include "p2p/transport/cuda/own_gpu.hpp"
#include "p2p/transport/verbs/api/load.hpp"
#include "p2p/transport/verbs/device/device.hpp"
#include "p2p/transport/verbs/device/port_list.hpp"
#include "p2p/transport/verbs/regions.hpp"
#include "weft/error.hpp"

namespace weft::tool {
namespace {

namespace verbs = p2p::verbs;

/// Why a job would not take the path, whatever a proof says; empty: it would.
std::string why_far(const GpuScene& scene, const std::string& nic, const std::string& pci) {
  for (const topology::FarGpu& far : scene.placement.far_gpus)
    if (far.nic == nic.substr(0, nic.find(':')) && far.pci == pci) return far.reason;
  return {};
}

NicPath try_path(const GpuScene& scene, verbs::Device& device, verbs::Regions& regions,
                 const p2p::cuda::GpuChunk& chunk) {
  NicPath path{.nic = device.name(), .gpu = chunk.gpu->ordinal(), .way = "staged"};
  const auto reach = regions.gpu()->reach_of(chunk);
  if (!reach.ok()) {
    path.reason = reach.status().detail().message;
    return path;
  }
  path.registered_by = reach->registered_by;
  path.flush = name(reach->flush);
  path.reason = "a page went there and back by the NIC's loopback";
  const std::string pci = p2p::cuda::pci_address_of(chunk.gpu->driver(), chunk.gpu->ordinal());
  if (std::string far = why_far(scene, path.nic, pci); !far.empty())
    path.reason = fmt::format("{}; else it would do: {}", far, path.reason);
  else
    path.way = "gpudirect";
  return path;
}

void try_port(const GpuScene& scene, const std::shared_ptr<verbs::Verbs>& library,
              const verbs::Port& port, p2p::cuda::Gpus& gpus,
              const std::vector<p2p::cuda::GpuChunk>& chunks, const p2p::RankMemory& memory,
              GpuPaths& paths) {
  verbs::VerbsOptions options = verbs::VerbsOptions::read(scene.config);
  options.nic = port.name();
  try {
    Log log(Config().with(Setting::log, "off"), "weft-info", 0);
    verbs::Device device(library, options, log);
    p2p::cuda::Gpus* const named = &gpus;
    verbs::Regions regions(device, {.control = memory.control,
                                    .data = memory.data,
                                    .published = memory.published,
                                    .staging = memory.staging,
                                    .adopted = memory.adopted,
                                    .gpus = &named});
    for (const p2p::cuda::GpuChunk& chunk : chunks)
      paths.nics.push_back(try_path(scene, device, regions, chunk));
  } catch (const Error& error) {
    paths.nics.push_back({.nic = port.name(), .way = "staged", .reason = error.detail().message});
  }
}

}  // namespace

void try_nics(const GpuScene& scene, p2p::cuda::Gpus& gpus,
              const std::vector<p2p::cuda::GpuChunk>& chunks, const p2p::RankMemory& memory,
              GpuPaths& paths) {
  auto library = scene.verbs;
  if (library == nullptr) library = verbs::load_verbs(paths.no_nics);
  if (library == nullptr) return;
  try {
    const verbs::PortList list = verbs::list_ports(*library);
    if (list.ports.empty()) paths.no_nics = "this machine has no RDMA device";
    for (const verbs::Port& port : list.ports)
      try_port(scene, library, port, gpus, chunks, memory, paths);
  } catch (const Error& error) {
    paths.no_nics = error.detail().message;
  }
}

}  // namespace weft::tool
