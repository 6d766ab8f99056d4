// Checks of the CUDA driver and of NICs' access to GPU memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "topology/doctor/checks.hpp"
#include "topology/model/path_class.hpp"
#include "topology/parse/numbers.hpp"

namespace weft::doctor {
namespace {

const char* const kNoGpu = "no NVIDIA GPU is here";

using Version = std::pair<long, long>;

/// "6.1.0-18-amd64" as (6, 1); (0, 0) if it is malformed.
Version version_of(const std::string& release) {
  const auto dot = release.find('.');
  if (dot == release.npos) return {0, 0};
  const auto rest = std::string_view(release).substr(dot + 1);
  return {topology::parse_whole(release.substr(0, dot)).value_or(0),
          topology::parse_whole(rest.substr(0, rest.find_first_not_of("0123456789"))).value_or(0)};
}

/// Treatment of a function's addresses by the IOMMU.
enum class Translation : std::uint8_t { none, identity, translated, unknown };

Translation translation_of(const Scene& scene, int pci) {
  const auto group = fmt::format("/sys/bus/pci/devices/{}/iommu_group", scene.address(pci));
  if (!scene.files.exists(group)) return Translation::none;
  if (const auto type = scene.files.read(group + "/type"))
    return *type == "identity" ? Translation::identity : Translation::translated;
  // Kernels before 5.11 have no `type`; their command line has the default.
  const auto command_line = scene.files.read("/proc/cmdline").value_or("");
  return command_line.find("iommu=pt") != command_line.npos ||
                 command_line.find("iommu.passthrough=1") != command_line.npos
             ? Translation::identity
             : Translation::unknown;
}

/// Switch ports between two devices below the same switch. Empty if they share no switch.
std::vector<int> between(const Scene& scene, int a, int b) {
  const int meeting = topology::path_between(scene.model, a, b).meeting;
  if (meeting == topology::kNone || scene.node(meeting).kind != topology::PciKind::bridge)
    return {};
  std::vector<int> ports;
  for (const int device : {a, b})
    for (int at = scene.node(device).parent; at != meeting; at = scene.node(at).parent)
      ports.push_back(at);
  return ports;
}

/// Effect of ACS on devices that share a switch.
struct Redirections {
  std::size_t pairs = 0;
  std::set<std::string> redirecting{};  ///< addresses of ports that send traffic to the host
  std::set<std::string> unread{};       ///< addresses of ports that this user cannot read
};

Redirections redirections(const Scene& scene, const std::vector<int>& gpus,
                          const std::vector<int>& others) {
  Redirections found;
  for (const int gpu : gpus)
    for (const int other : others) {
      const auto ports = between(scene, gpu, other);
      if (!ports.empty()) ++found.pairs;
      for (const int port : ports) {
        const auto& redirects = scene.node(port).acs_redirect;
        if (!redirects) found.unread.insert(scene.address(port));
        if (redirects == true) found.redirecting.insert(scene.address(port));
      }
    }
  return found;
}

}  // namespace

Findings check_cuda(const Scene& scene) {
  const auto gpus = scene.nvidia_gpus();
  if (gpus.empty()) return {{.says = kNoGpu}};
  const auto cuda = scene.host.cuda();
  if (cuda.version.empty())
    return {
        {.verdict = Verdict::fail,
         .says = fmt::format("{} NVIDIA GPUs, but no CUDA driver: {}", gpus.size(), cuda.problem),
         .fix = "install NVIDIA's driver, library and kernel module of one version; in a "
                "container, --gpus all with NVIDIA's container toolkit"}};
  const auto says =
      fmt::format("CUDA {}; {} of {} GPUs usable{}{}", cuda.version, cuda.devices.size(),
                  gpus.size(), cuda.problem.empty() ? "" : "; ", cuda.problem);
  if (cuda.devices.empty())
    return {{.verdict = Verdict::fail,
             .says = says,
             .fix = "nvidia-smi tells more; CUDA_VISIBLE_DEVICES may leave all GPUs out"}};
  if (cuda.devices.size() < gpus.size() || !cuda.problem.empty())
    return {{.verdict = Verdict::warn,
             .says = says,
             .fix = "if this is not intended, check CUDA_VISIBLE_DEVICES, the container and the "
                    "scheduler"}};
  if (version_of(cuda.version) < Version(11, 7))
    return {{.verdict = Verdict::warn,
             .says = says + "; before 11.7, GPU memory can't be exported as dma-buf",
             .fix = "install a newer driver; until then, modprobe nvidia_peermem"}};
  return {{.verdict = Verdict::ok, .says = says}};
}

Findings check_peer_memory(const Scene& scene) {
  if (scene.nvidia_gpus().empty()) return {{.says = kNoGpu}};
  if (scene.nics().empty()) return {{.says = "no NIC with RDMA is on a PCI bus here"}};
  const auto driver = scene.files.read("/proc/driver/nvidia/version").value_or("");
  const bool open_driver = driver.find("Open Kernel Module") != driver.npos;
  const bool new_kernel = version_of(scene.host.kernel) >= Version(5, 12);
  const bool peermem = scene.files.exists("/sys/module/nvidia_peermem");
  const bool old_peermem = scene.files.exists("/sys/module/nv_peer_mem");
  if (open_driver && new_kernel)
    return {{.verdict = Verdict::ok,
             .says = fmt::format("dma-buf (kernel {}, NVIDIA's open kernel module){}",
                                 scene.host.kernel, peermem ? "; nvidia_peermem too" : "")}};
  if (peermem) return {{.verdict = Verdict::ok, .says = "nvidia_peermem is loaded"}};
  const auto why =
      fmt::format("dma-buf needs kernel 5.12 (here {}) and NVIDIA's open kernel module ({})",
                  scene.host.kernel, open_driver ? "here" : "not here");
  if (old_peermem)
    return {{.verdict = Verdict::warn,
             .says = "only nv_peer_mem is loaded, which is no longer maintained; " + why,
             .fix = "modprobe -r nv_peer_mem; modprobe nvidia_peermem"}};
  return {
      {.verdict = Verdict::fail,
       .says = "NICs can't reach GPU memory, so all goes through host memory: nvidia_peermem is "
               "not loaded; " +
               why,
       .fix = "modprobe nvidia_peermem, or install the driver's open kernel modules"}};
}

Findings check_iommu(const Scene& scene) {
  const auto nics = scene.nics();
  const auto gpus = scene.gpus();
  if (nics.empty()) return {{.says = "no NIC with RDMA is on a PCI bus here"}};
  std::vector<std::string> translated;
  std::size_t translated_gpus = 0;
  bool unknown = false;
  bool on = false;
  for (const auto* functions : {&nics, &gpus})
    for (const int pci : *functions) {
      const auto how = translation_of(scene, pci);
      on |= how != Translation::none;
      unknown |= how == Translation::unknown;
      if (how != Translation::translated) continue;
      translated.push_back(scene.address(pci));
      if (functions == &gpus) ++translated_gpus;
    }
  if (unknown) return {{.says = "this kernel does not report what the IOMMU does for a device"}};
  if (translated.empty())
    return {{.verdict = Verdict::ok,
             .says = on ? "on, and passes the addresses of NICs and GPUs through" : "off"}};
  const bool both = translated_gpus > 0 && translated.size() > translated_gpus;
  return {
      {.verdict = both ? Verdict::fail : Verdict::warn,
       .says = fmt::format("translates addresses of {}: {}", fmt::join(translated, ", "),
                           both ? "NICs and GPUs reach each other through the processor, if at all"
                                : "registering memory and every transfer take longer"),
       .fix = "boot with iommu=pt (ARM: iommu.passthrough=1)"}};
}

Findings check_acs(const Scene& scene) {
  const std::string off =
      "on bare metal, turn ACS off in the BIOS, or at each boot: setpci -s BRIDGE "
      "ECAP_ACS+6.w=0000. A virtual machine needs it, with ATS";
  const auto gpus = scene.gpus();
  const auto nics = redirections(scene, gpus, scene.nics());
  const auto peers = redirections(scene, gpus, gpus);
  if (nics.pairs + peers.pairs == 0)
    return {{.says = "no GPU shares a PCI switch with a NIC or another GPU"}};
  if (!nics.redirecting.empty())
    return {{.verdict = Verdict::fail,
             .says = fmt::format("ACS sends what NIC and GPU exchange up to the processor, at {}",
                                 fmt::join(nics.redirecting, ", ")),
             .fix = off}};
  if (!peers.redirecting.empty())
    return {{.verdict = Verdict::warn,
             .says = fmt::format("ACS sends what GPUs exchange by PCI up to the processor, at {}",
                                 fmt::join(peers.redirecting, ", ")),
             .fix = off}};
  const auto unread = std::max(nics.unread.size(), peers.unread.size());
  if (unread > 0)
    return {{.says = fmt::format(
                 "only root may read what {} switch ports do: sudo weft-topo doctor", unread)}};
  return {{.verdict = Verdict::ok, .says = "no switch redirects what GPUs and NICs exchange"}};
}

}  // namespace weft::doctor
