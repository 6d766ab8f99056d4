#include "tests/cuda/driver/reduce_twins.hpp"

#include <map>

#include "p2p/transport/cuda/kernels/reduce_kernel.hpp"
#include "tests/cuda/driver/machine.hpp"
#include "tests/cuda/driver/memory.hpp"

namespace weft::stand_in {
namespace {

using namespace p2p::cuda::kernels;

/// The launch with addresses that the processor reaches; false: the GPU does not reach all.
bool reach_all(ReduceParameters& launch, std::size_t element, Device device) {
  const std::lock_guard lock(machine().mutex);
  const auto reach = [&](auto*& at, Reach mode) {
    const auto reached =
        reach_memory(reinterpret_cast<DevicePointer>(at), launch.count * element, device, mode);
    // Host memory is reached too where it is pinned.
    const bool is_there = reached.data != nullptr && (reached.memory != nullptr || reached.pinned);
    if (is_there) at = reinterpret_cast<std::remove_reference_t<decltype(at)>>(reached.data);
    return is_there;
  };
  bool all = launch.source_count <= kMostSources && launch.target_count <= kMostSources;
  for (std::uint32_t i = 0; all && i < launch.source_count; ++i)
    all = reach(launch.sources[i], Reach::read);
  for (std::uint32_t i = 0; all && i < launch.target_count; ++i)
    all = reach(launch.targets[i], Reach::read_write);
  if (!all) machine().complain("a kernel touches memory that its GPU does not reach");
  return all;
}

bool is_aligned(const ReduceParameters& launch, std::size_t element) {
  const auto fits = [&](const unsigned char* at) {
    return launch.packs == 0 ||
           (reinterpret_cast<std::uintptr_t>(at) + launch.head * element) % kPack == 0;
  };
  bool all = true;
  for (std::uint32_t i = 0; i < launch.source_count; ++i) all = all && fits(launch.sources[i]);
  for (std::uint32_t i = 0; i < launch.target_count; ++i) all = all && fits(launch.targets[i]);
  return all;
}

template <class Type, class Op>
Twin twin() {
  return {.parameter_bytes = {sizeof(ReduceParameters)}, .run = [](const Launch& launched) {
            auto launch = launched.parameter<ReduceParameters>(0);
            if (!reach_all(launch, sizeof(typename Type::Stored), launched.device)) return;
            if (!is_aligned(launch, sizeof(typename Type::Stored))) {
              const std::lock_guard lock(machine().mutex);
              return machine().complain("a kernel's access is not aligned");
            }
            const std::uint64_t threads = std::uint64_t{launched.grid.x} * launched.block.x;
            for (std::uint64_t thread = 0; thread < threads; ++thread)
              reduce<Type, Op>(launch, thread, threads);
          }};
}

}  // namespace

const Twin* twin_of_weft(const std::string& kernel) {
  static const auto* const all = new std::map<std::string, Twin>{
#define WEFT_TWIN(dtype, reduction, Type, Op) \
  {"weft_reduce_" #dtype "_" #reduction, twin<Type, Op>()},
      WEFT_REDUCE_KERNELS(WEFT_TWIN)
#undef WEFT_TWIN
  };
  const auto found = all->find(kernel);
  return found == all->end() ? nullptr : &found->second;
}

}  // namespace weft::stand_in
