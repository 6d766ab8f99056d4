// NVIDIA's management library, loaded when it is asked: links between GPUs. No header of it is
// needed; the forms below have not changed since these functions exist.
#include <array>
#include <cstdint>
#include <cstring>

#include "topology/discover/driver_library.hpp"
#include "topology/discover/steps.hpp"

namespace weft::topology {
namespace {

constexpr int kSuccess = 0;
constexpr unsigned kMostLinks = 18;  // of an H200; no GPU has more yet
constexpr int kRemoteGpu = 0;
constexpr int kRemoteProcessor = 1;
constexpr int kRemoteSwitch = 2;
constexpr unsigned kC2cLinks = 170;      // NVML_FI_DEV_C2C_LINK_COUNT
constexpr unsigned kC2cBandwidth = 172;  // NVML_FI_DEV_C2C_LINK_GET_MAX_BW, MB/s of one

/// nvmlPciInfo_t
struct PciInfo {
  std::array<char, 16> legacy;
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned ids[2];
  std::array<char, 32> bus_id;
};

/// nvmlFieldValue_t
struct FieldValue {
  unsigned field;
  unsigned scope;
  std::int64_t timestamp;
  std::int64_t latency;
  unsigned type;
  int result;
  union {
    double as_double;
    unsigned as_unsigned;
    std::uint64_t as_long;
  } value;
};

class NvmlLibrary {
 public:
  NvmlLibrary() {
    library_.find(init, "nvmlInit_v2");
    library_.find(shutdown, "nvmlShutdown");
    library_.find(count, "nvmlDeviceGetCount_v2");
    library_.find(handle, "nvmlDeviceGetHandleByIndex_v2");
    library_.find(pci, "nvmlDeviceGetPciInfo_v3");
    library_.find(link_state, "nvmlDeviceGetNvLinkState");
    library_.find(remote_pci, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
    library_.find(remote_type, "nvmlDeviceGetNvLinkRemoteDeviceType");
    library_.find(fields, "nvmlDeviceGetFieldValues");
  }
  const std::string& problem() const noexcept { return library_.problem(); }

  using Device = void*;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, Device*) = nullptr;
  int (*pci)(Device, PciInfo*) = nullptr;
  int (*link_state)(Device, unsigned, unsigned*) = nullptr;
  int (*remote_pci)(Device, unsigned, PciInfo*) = nullptr;
  int (*remote_type)(Device, unsigned, int*) = nullptr;
  int (*fields)(Device, int, FieldValue*) = nullptr;

 private:
  DriverLibrary library_{"libnvidia-ml.so.1", "NVIDIA management library"};
};

std::optional<PciAddress> address_in(const PciInfo& info) {
  std::string text(info.bus_id.data(), ::strnlen(info.bus_id.data(), info.bus_id.size()));
  return PciAddress::parse(text);
}

double field_of(const NvmlLibrary& nvml, NvmlLibrary::Device device, unsigned field) {
  FieldValue value{};
  value.field = field;
  if (nvml.fields(device, 1, &value) != kSuccess || value.result != kSuccess) return 0;
  constexpr unsigned kDouble = 0;
  constexpr unsigned kUnsigned = 1;
  if (value.type == kDouble) return value.value.as_double;
  return value.type == kUnsigned ? value.value.as_unsigned
                                 : static_cast<double>(value.value.as_long);
}

/// Links to the same other end count together.
void add_link(std::vector<GpuLink>& links, const GpuLink& link) {
  for (GpuLink& known : links)
    if (known.to == link.to && known.target == link.target) {
      ++known.count;
      return;
    }
  links.push_back(link);
}

GpuLinks links_of(const NvmlLibrary& nvml, NvmlLibrary::Device device, const PciAddress& address) {
  GpuLinks found{.pci = address};
  for (unsigned number = 0; number < kMostLinks; ++number) {
    unsigned active = 0;
    if (nvml.link_state(device, number, &active) != kSuccess || active == 0) continue;
    int type = -1;
    PciInfo remote{};
    GpuLink link;
    if (nvml.remote_pci(device, number, &remote) == kSuccess) link.target = address_in(remote);
    if (nvml.remote_type(device, number, &type) != kSuccess) continue;
    if (type != kRemoteGpu && type != kRemoteProcessor && type != kRemoteSwitch) continue;
    link.to = type == kRemoteGpu      ? PeerKind::gpu
              : type == kRemoteSwitch ? PeerKind::nvswitch
                                      : PeerKind::cpu;
    add_link(found.links, link);
  }
  constexpr double kMegabytes = 1000;
  found.c2c_gbytes =
      field_of(nvml, device, kC2cLinks) * field_of(nvml, device, kC2cBandwidth) / kMegabytes;
  return found;
}

}  // namespace

std::vector<GpuLinks> ask_nvml() {
  std::vector<GpuLinks> all;
  const NvmlLibrary nvml;
  if (!nvml.problem().empty() || nvml.init() != kSuccess) return all;
  unsigned count = 0;
  if (nvml.count(&count) != kSuccess) count = 0;
  for (unsigned i = 0; i < count; ++i) {
    NvmlLibrary::Device device = nullptr;
    PciInfo info{};
    if (nvml.handle(i, &device) != kSuccess || nvml.pci(device, &info) != kSuccess) continue;
    if (const auto address = address_in(info)) all.push_back(links_of(nvml, device, *address));
  }
  nvml.shutdown();
  return all;
}

void add_gpu_links(const std::vector<GpuLinks>& answer, Model& model) {
  for (const GpuLinks& found : answer) {
    const int pci = find_pci(model, found.pci);
    for (Gpu& gpu : model.gpus) {
      if (pci == kNone || gpu.pci != pci) continue;
      gpu.links = found.links;
      gpu.c2c_gbytes = found.c2c_gbytes;
      gpu.sources.push_back({.fact = "links", .source = "NVML"});
    }
  }
}

}  // namespace weft::topology
