#include "p2p/transport/cuda/api/load.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/fail.hpp"

namespace weft::p2p::cuda {
namespace {

constexpr const char* kFile = "libcuda.so.1";
constexpr const char* kInstall = "install NVIDIA's driver, of CUDA 12.0 or later";

Status no_driver(std::string message, const char* hint) {
  return Status(error_detail(Code::system, "load CUDA", std::move(message), hint));
}

/// The first function that is missing, or null.
const char* look_up(void* library, Driver& driver) {
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* symbol) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, symbol));
    if (function == nullptr && missing == nullptr) missing = symbol;
  };
#define WEFT_CUDA_FIND(name, symbol, ...) find(driver.name, #symbol);
  WEFT_CUDA_CALLS(WEFT_CUDA_FIND)
#undef WEFT_CUDA_FIND
  return missing;
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

std::string error_text(const Driver& driver, DriverStatus status) {
  const char* name = nullptr;
  if (driver.error_name(status, &name) != DriverStatus::success || name == nullptr)
    return fmt::format("error {}", static_cast<unsigned>(status));
  const char* words = nullptr;
  if (driver.error_string(status, &words) != DriverStatus::success || words == nullptr) return name;
  return fmt::format("{} ({})", name, words);
}

Status load_driver_from(const char* file, Driver& driver) {
  // Never closed: a driver that was started must not vanish below its threads.
  void* library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return no_driver(fmt::format("there is no CUDA driver: {}", ::dlerror()), kInstall);
  const char* missing = look_up(library, driver);
  // The version says more than a missing function, and needs but one.
  int version = 0;
  if (driver.version != nullptr && driver.version(&version) == DriverStatus::success &&
      version < kOldestDriver)
    return no_driver(fmt::format("the CUDA driver is of {}, and weft needs {} or later",
                                 version_text(version), version_text(kOldestDriver)),
                     kInstall);
  if (missing != nullptr)
    return no_driver(fmt::format("the CUDA driver {} has no {}", file, missing), kInstall);
  const DriverStatus status = driver.init(0);
  if (status == DriverStatus::no_device)
    return no_driver("the CUDA driver sees no GPU",
                     "check nvidia-smi, and CUDA_VISIBLE_DEVICES of this process");
  if (status != DriverStatus::success)
    return no_driver(
        fmt::format("the CUDA driver refuses to start: {}", error_text(driver, status)),
        "check nvidia-smi, and the kernel's log");
  return {};
}

const Driver* driver_in_use() {
  void* library = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  ::dlclose(library);  // its other users keep it
  const auto driver = load_driver();
  return driver.ok() ? *driver : nullptr;
}

Result<const Driver*> load_driver() {
  struct Loaded {
    Driver driver;
    Status status = load_driver_from(kFile, driver);
  };
  static const Loaded loaded;
  if (!loaded.status.ok()) return loaded.status;
  return &loaded.driver;
}

}  // namespace weft::p2p::cuda
