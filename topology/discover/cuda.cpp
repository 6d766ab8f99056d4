// The CUDA driver, loaded when it is asked. No header of it is needed: these few functions have not
// changed their form since they exist.
#include <fmt/format.h>

#include <array>

#include "topology/discover/driver_library.hpp"
#include "topology/discover/steps.hpp"

namespace weft::topology {
namespace {

constexpr int kSuccess = 0;
constexpr int kGpuDirectSupported = 116;  // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED
constexpr int kDmaBufSupported = 124;     // CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED

struct Uuid {
  std::array<unsigned char, 16> bytes;
};

class CudaLibrary {
 public:
  CudaLibrary() {
    library_.find(init, "cuInit");
    library_.find(version, "cuDriverGetVersion");
    library_.find(count, "cuDeviceGetCount");
    library_.find(device, "cuDeviceGet");
    library_.find(name, "cuDeviceGetName");
    library_.find(bus_id, "cuDeviceGetPCIBusId");
    library_.find(attribute, "cuDeviceGetAttribute");
    library_.find(error_name, "cuGetErrorName");
    library_.find(uuid, "cuDeviceGetUuid_v2");  // since CUDA 11.4: tells slices apart
  }

  /// Empty: all is there.
  const std::string& problem() const noexcept { return library_.problem(); }
  std::string words(int error) const {
    const char* text = nullptr;
    return error_name(error, &text) == kSuccess && text != nullptr ? text
                                                                   : fmt::format("error {}", error);
  }

  int (*init)(unsigned) = nullptr;
  int (*version)(int*) = nullptr;
  int (*count)(int*) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*name)(char*, int, int) = nullptr;
  int (*bus_id)(char*, int, int) = nullptr;
  int (*attribute)(int*, int, int) = nullptr;
  int (*error_name)(int, const char**) = nullptr;
  int (*uuid)(Uuid*, int) = nullptr;

 private:
  DriverLibrary library_{"libcuda.so.1", "CUDA driver"};
};

std::string uuid_text(const Uuid& uuid, bool mig) {
  std::string text = mig ? "MIG-" : "GPU-";
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return text;
}

std::optional<bool> supports(const CudaLibrary& cuda, int attribute, int device) {
  int value = 0;
  // A driver from before there was the attribute refuses the question.
  if (cuda.attribute(&value, attribute, device) != kSuccess) return std::nullopt;
  return value != 0;
}

/// Empty: the device was added.
std::string add_device(const CudaLibrary& cuda, int ordinal, CudaAnswer& answer) {
  int device = 0;
  if (const int error = cuda.device(&device, ordinal)) return cuda.words(error);
  std::array<char, 64> bus{};
  if (const int error = cuda.bus_id(bus.data(), static_cast<int>(bus.size()), device))
    return cuda.words(error);
  const auto address = PciAddress::parse(bus.data());
  if (!address) return fmt::format("its bus id \"{}\" is no PCI address", bus.data());
  CudaDevice found{.ordinal = ordinal, .pci = *address};
  std::array<char, 128> name{};
  if (cuda.name(name.data(), static_cast<int>(name.size()), device) == kSuccess)
    found.name = name.data();
  // A slice of a GPU is named after it, with its own size: "NVIDIA H200 MIG 1g.18gb".
  found.mig = found.name.find(" MIG ") != std::string::npos;
  if (Uuid uuid{}; cuda.uuid(&uuid, device) == kSuccess) found.uuid = uuid_text(uuid, found.mig);
  found.dma_buf = supports(cuda, kDmaBufSupported, device);
  found.gpudirect = supports(cuda, kGpuDirectSupported, device);
  answer.devices.push_back(std::move(found));
  return {};
}

}  // namespace

CudaAnswer ask_cuda_driver() {
  CudaAnswer answer;
  const CudaLibrary cuda;
  answer.problem = cuda.problem();
  if (!answer.problem.empty()) return answer;
  int version = 0;
  if (cuda.version(&version) == kSuccess)
    answer.version = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  int count = 0;
  int error = cuda.init(0);
  if (error == kSuccess) error = cuda.count(&count);
  if (error != kSuccess) {
    answer.problem = fmt::format("the CUDA driver refuses: {}", cuda.words(error));
    return answer;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal)
    if (const std::string why = add_device(cuda, ordinal, answer); !why.empty())
      answer.problem = fmt::format("CUDA device {}: {}", ordinal, why);
  return answer;
}

void add_cuda(const CudaAnswer& answer, Model& model) {
  model.facts.cuda = answer.version.empty() ? answer.problem : answer.version;
  if (!answer.version.empty() && !answer.problem.empty()) model.notes.push_back(answer.problem);
  for (const CudaDevice& device : answer.devices) {
    const int pci = find_pci(model, device.pci);
    if (pci == kNone) {
      model.notes.push_back(fmt::format("CUDA device {} is at {}, which is not shown here",
                                        device.ordinal, device.pci.text()));
      continue;
    }
    Gpu* gpu = nullptr;
    for (Gpu& known : model.gpus)
      if (known.pci == pci) gpu = &known;
    if (gpu == nullptr) {
      gpu = &model.gpus.emplace_back();
      gpu->pci = pci;
    }
    // The first slice of a GPU stands for the GPU: NICs see the whole.
    if (gpu->cuda_ordinal != kNone) continue;
    gpu->cuda_ordinal = device.ordinal;
    gpu->os_name = fmt::format("cuda{}", device.ordinal);
    gpu->uuid = device.uuid;
    gpu->mig = device.mig;
    gpu->dma_buf = device.dma_buf;
    gpu->gpudirect = device.gpudirect;
    gpu->sources.push_back({.fact = "cuda", .source = "CUDA driver"});
    if (!device.name.empty()) model.pci[static_cast<std::size_t>(pci)].description = device.name;
  }
}

}  // namespace weft::topology
