#include "gpu.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <string>

#include "kernels.hpp"
#include "kernels_image.hpp"

namespace images {
namespace {

// The driver's types, as its ABI has them.
using Result = int;
using Device = int;
using Handle = void*;

constexpr unsigned kNonBlocking = 1;
constexpr unsigned kBlock = 128;
constexpr int kThisThread = 1;  // other threads may call the driver meanwhile

}  // namespace

struct Gpu::Driver {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  int ordinal = 0;
  Device device = 0;
  Handle context = nullptr;
  Handle stream = nullptr;
  Handle module = nullptr;
  Handle graph = nullptr;
  std::map<std::string, Handle> functions{};

  /// Calls a function of the driver. Throws GpuError unless it succeeds.
  template <typename... Arguments>
  void call(const char* name, Arguments... arguments) {
    if (const Result result = result_of(name, arguments...); result != 0)
      throw GpuError(fmt::format("GPU {}: {} answers {}", ordinal, name, text_of(result)));
  }
  template <typename... Arguments>
  Result result_of(const char* name, Arguments... arguments) {
    const auto function = reinterpret_cast<Result (*)(Arguments...)>(
        library == nullptr ? nullptr : ::dlsym(library, name));
    if (function == nullptr) throw GpuError(fmt::format("the CUDA driver has no {}", name));
    return function(arguments...);
  }
  std::string text_of(Result result) {
    const char* text = nullptr;
    if (result_of("cuGetErrorName", result, &text) != 0 || text == nullptr)
      return std::to_string(result);
    return text;
  }

  void load_kernels() {
    if (kernels_image() == nullptr) {
      // The stand-in for the driver, by which tests run without a GPU, has kernels of its own.
      if (result_of("cuModuleLoadData", &module, static_cast<const void*>("none")) == 0) return;
      throw GpuError(fmt::format(
          "GPU {}: this program has no kernels, since it was built without nvcc: build it where "
          "the CUDA toolkit is installed",
          ordinal));
    }
    call("cuModuleLoadData", &module, kernels_image());
  }
  Handle function(const char* name) {
    Handle& found = functions[name];
    if (found == nullptr) call("cuModuleGetFunction", &found, module, name);
    return found;
  }
};

Gpu::Gpu(int ordinal) : driver_(std::make_unique<Driver>()) {
  Driver& driver = *driver_;
  driver.ordinal = ordinal;
  driver.call("cuInit", 0U);
  driver.call("cuDeviceGet", &driver.device, ordinal);
  // The context that weft, and the CUDA runtime, use too.
  driver.call("cuDevicePrimaryCtxRetain", &driver.context, driver.device);
  driver.call("cuCtxPushCurrent_v2", driver.context);
  driver.load_kernels();
  // All at once: a driver that finds one later may wait, which a capture does not allow.
#define IMAGES_FIND(name, Kernel) (void)driver.function(#name);
  IMAGES_KERNELS(IMAGES_FIND)
#undef IMAGES_FIND
  driver.call("cuStreamCreate", &driver.stream, kNonBlocking);
}

Gpu::~Gpu() {
  Driver& driver = *driver_;
  try {
    driver.call("cuStreamSynchronize", driver.stream);
    if (driver.graph != nullptr) driver.call("cuGraphExecDestroy", driver.graph);
    driver.call("cuStreamDestroy_v2", driver.stream);
    driver.call("cuModuleUnload", driver.module);
    driver.call("cuCtxPopCurrent_v2", &driver.context);
    driver.call("cuDevicePrimaryCtxRelease_v2", driver.device);
  } catch (const GpuError& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
}

weft::Stream Gpu::stream() const noexcept { return weft::Stream::cuda(driver_->stream); }

void Gpu::launch(const char* name, long threads, const void* arguments) {
  Driver& driver = *driver_;
  const auto blocks = static_cast<unsigned>((threads + kBlock - 1) / kBlock);
  void* parameters[] = {const_cast<void*>(arguments)};
  driver.call("cuLaunchKernel", driver.function(name), blocks, 1U, 1U, kBlock, 1U, 1U, 0U,
              driver.stream, static_cast<void**>(parameters), static_cast<void**>(nullptr));
}

void Gpu::capture(const std::function<void()>& work) {
  Driver& driver = *driver_;
  Handle graph = nullptr;
  driver.call("cuStreamBeginCapture_v2", driver.stream, kThisThread);
  try {
    work();
  } catch (...) {
    (void)driver.result_of("cuStreamEndCapture", driver.stream, &graph);
    if (graph != nullptr) (void)driver.result_of("cuGraphDestroy", graph);
    throw;
  }
  driver.call("cuStreamEndCapture", driver.stream, &graph);
  driver.call("cuGraphInstantiateWithFlags", &driver.graph, graph, 0ULL);
  driver.call("cuGraphDestroy", graph);
}

bool Gpu::has_graph() const noexcept { return driver_->graph != nullptr; }

void Gpu::launch_graph() { driver_->call("cuGraphLaunch", driver_->graph, driver_->stream); }

void Gpu::wait() { driver_->call("cuStreamSynchronize", driver_->stream); }

}  // namespace images
