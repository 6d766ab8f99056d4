#include "tests/cuda/driver/reduce_twins.hpp"

#include <map>

#include "p2p/transport/cuda/kernels/convert_kernel.hpp"
#include "p2p/transport/cuda/kernels/meet_kernel.hpp"
#include "p2p/transport/cuda/kernels/reduce_kernel.hpp"
#include "tests/cuda/driver/machine.hpp"
#include "tests/cuda/driver/memory.hpp"

namespace weft::stand_in {
namespace {

using namespace p2p::cuda::kernels;

/// Whether the GPU reaches a word in host memory.
bool reach_word(const std::uint32_t* word, Device device) {
  return reach_memory(reinterpret_cast<DevicePointer>(word), sizeof *word, device, Reach::read)
      .pinned;
}

/// The address at which the processor reaches what the GPU reaches at `at`; false: it does not.
template <typename Chars>
bool reach(Chars*& at, std::size_t bytes, Device device, Reach mode) {
  const auto reached = reach_memory(reinterpret_cast<DevicePointer>(at), bytes, device, mode);
  // Host memory is reached too where it is pinned.
  const bool is_there = reached.data != nullptr && (reached.memory != nullptr || reached.pinned);
  if (is_there) at = reinterpret_cast<Chars*>(reached.data);
  return is_there;
}

/// The launch with addresses that the processor reaches; false: the GPU does not reach all.
bool reach_all(ReduceParameters& launch, std::size_t element, Device device) {
  const std::lock_guard lock(machine().mutex);
  bool all = launch.source_count <= kMostSources && launch.target_count <= kMostSources;
  if (launch.ended != nullptr) {
    all = all && reach_word(launch.ended, device);
    // Memory of a launch that does nothing may be gone.
    if (all && load_word(launch.ended) != 0) {
      launch.count = launch.head = launch.packs = 0;
      return true;
    }
  }
  for (std::uint32_t i = 0; all && i < launch.source_count; ++i)
    all = reach(launch.sources[i], launch.count * element, device, Reach::read);
  for (std::uint32_t i = 0; all && i < launch.target_count; ++i)
    all = reach(launch.targets[i], launch.count * element, device, Reach::read_write);
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

/// One source and one target, whose elements have `from` and `to` bytes.
template <typename Body>
Twin convert_twin(std::size_t from, std::size_t to, Body body) {
  return {.parameter_bytes = {sizeof(ReduceParameters)}, .run = [=](const Launch& launched) {
            auto launch = launched.parameter<ReduceParameters>(0);
            {
              const std::lock_guard lock(machine().mutex);
              if (!reach(launch.sources[0], launch.count * from, launched.device, Reach::read) ||
                  !reach(launch.targets[0], launch.count * to, launched.device, Reach::read_write))
                return machine().complain("a kernel touches memory that its GPU does not reach");
            }
            const std::uint64_t threads = std::uint64_t{launched.grid.x} * launched.block.x;
            for (std::uint64_t thread = 0; thread < threads; ++thread)
              body(launch, thread, threads);
          }};
}

template <class Type>
Twin widen_twin() {
  return convert_twin(sizeof(typename Type::Stored), sizeof(typename Type::Wide), widen<Type>);
}

template <class Type>
Twin finish_twin() {
  return convert_twin(sizeof(typename Type::Wide), sizeof(typename Type::Stored), finish<Type>);
}

Twin meet_twin() {
  return {.parameter_bytes = {sizeof(MeetParameters)}, .run = [](const Launch& launched) {
            const auto launch = launched.parameter<MeetParameters>(0);
            bool all = launch.count <= kMostPartners && launch.count <= launched.block.x;
            {
              const std::lock_guard lock(machine().mutex);
              all = all && reach_word(launch.ended, launched.device);
              const bool works = all && load_word(launch.ended) == 0;
              for (std::uint32_t i = 0; all && works && i < launch.count; ++i)
                all = launch.partners[i] == nullptr ||
                      (reach_word(launch.own + i, launched.device) &&
                       reach_word(launch.partners[i], launched.device));
              if (!all) machine().complain("a kernel touches words that its GPU does not reach");
            }
            for (std::uint32_t i = 0; all && i < launch.count; ++i) meet(launch, i);
          }};
}

}  // namespace

const Twin* twin_of_weft(const std::string& kernel) {
  static const auto* const all = new std::map<std::string, Twin>{
#define WEFT_TWIN(dtype, reduction, Type, Op) \
  {"weft_reduce_" #dtype "_" #reduction, twin<Type, Op>()},
      WEFT_REDUCE_KERNELS(WEFT_TWIN) WEFT_REDUCE_KERNELS_OF_SUMS(WEFT_TWIN)
#undef WEFT_TWIN
#define WEFT_TWINS(dtype, what, Type)                   \
  {"weft_widen_" #dtype "_" #what, widen_twin<Type>()}, \
      {"weft_finish_" #dtype "_" #what, finish_twin<Type>()},
          WEFT_CONVERT_KERNELS(WEFT_TWINS)
#undef WEFT_TWINS
              {kMeetKernel, meet_twin()},
  };
  const auto found = all->find(kernel);
  return found == all->end() ? nullptr : &found->second;
}

}  // namespace weft::stand_in
