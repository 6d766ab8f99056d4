// Modules and kernels: a kernel's body is its twin, which the test added by the kernel's name, or
// that of weft's own kernel.
#include <cstring>

#include "tests/cuda/driver/reduce_twins.hpp"
#include "tests/cuda/driver/streams.hpp"

struct CUmod_st {
  bool loaded = true;
};

struct CUfunc_st {
  weft::stand_in::Twin twin;
};

using namespace weft::stand_in;

namespace weft::p2p::cuda {
namespace {

/// Functions live as long as the process, as a test may keep one.
Function function_of(const Twin& twin) { return new CUfunc_st{twin}; }

}  // namespace

extern "C" {

DriverStatus cuModuleLoadData(Module* module, const void* image) {
  STAND_IN_CALL(cuModuleLoadData, true, waits);
  if (image == nullptr) return kInvalid;
  *module = remember(new CUmod_st, "modules");
  return kOk;
}

DriverStatus cuModuleUnload(Module module) {
  STAND_IN_CALL(cuModuleUnload, true, waits);
  if (!is_live(module, "modules")) return DriverStatus::invalid_handle;
  forget(module);
  delete module;
  return kOk;
}

DriverStatus cuModuleGetFunction(Function* function, Module module, const char* name) {
  STAND_IN_CALL(cuModuleGetFunction, true, waits);
  if (!is_live(module, "modules")) return DriverStatus::invalid_handle;
  const auto added = machine().twins.find(name);
  const Twin* const twin = added != machine().twins.end() ? &added->second : twin_of_weft(name);
  if (twin == nullptr) return DriverStatus::not_found;
  static auto* const made = new std::map<std::string, Function>;
  auto& slot = (*made)[name];
  if (slot == nullptr) slot = function_of(*twin);
  slot->twin = *twin;
  *function = slot;
  return kOk;
}

DriverStatus cuLaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared_bytes, StreamHandle handle, void** parameters,
                            void** extra) {
  STAND_IN_CALL(cuLaunchKernel, true, plain);
  Stream* stream = find_stream(handle);
  if (stream == nullptr || function == nullptr) return DriverStatus::invalid_handle;
  if (stream->device != machine().current()->device) return DriverStatus::invalid_handle;
  const auto threads = static_cast<unsigned long long>(block_x) * block_y * block_z;
  if (extra != nullptr || threads == 0 || threads > 1024 || grid_x == 0 || grid_y == 0 ||
      grid_z == 0)
    return kInvalid;
  Launch launch{.grid = {grid_x, grid_y, grid_z},
                .block = {block_x, block_y, block_z},
                .shared_bytes = shared_bytes,
                .device = stream->device,
                .parameters = {}};
  // Parameters are copied now: the caller may change them when this returns.
  for (std::size_t i = 0; i < function->twin.parameter_bytes.size(); ++i) {
    const auto* bytes = static_cast<const std::byte*>(parameters[i]);
    launch.parameters.emplace_back(bytes, bytes + function->twin.parameter_bytes[i]);
  }
  return enqueue(*stream, {.kind = "kernel", .run = [run = function->twin.run, launch] {
                             run(launch);
                             return kOk;
                           }});
}

}  // extern "C"
}  // namespace weft::p2p::cuda
