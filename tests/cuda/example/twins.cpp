// The example's kernels for the stand-in: the same bodies, in a loop over their threads. Linked
// into the example, they are there before it begins.
#include <cstddef>

#include "mpirun_examples/image_classifier/kernels.hpp"
#include "tests/cuda/driver/control.hpp"

namespace weft::tests {
namespace {

template <typename Kernel>
void add(stand_in::Control& control, const char* name) {
  control.add_twin(
      name,
      {.parameter_bytes = {sizeof(Kernel)}, .run = [&control](const stand_in::Launch& launch) {
         auto kernel = launch.parameter<Kernel>(0);
         kernel.for_each_array([&](images::kernels::Floats& array) {
           array.data = reinterpret_cast<float*>(
               control.reach(reinterpret_cast<p2p::cuda::DevicePointer>(array.data),
                             static_cast<std::size_t>(array.count) * sizeof(float), launch.device));
         });
         const long threads = static_cast<long>(launch.grid.x) * launch.block.x;
         for (long i = 0; i < threads && i < kernel.threads(); ++i) kernel(i);
       }});
}

const bool kAdded = [] {
  stand_in::Control* const control = stand_in::control();
  if (control == nullptr) return false;
  // The program waits for its own stream, which may wait for other ranks.
  control->act_for_application(true);
#define ADD_TWIN(name, Kernel) add<images::kernels::Kernel>(*control, #name);
  IMAGES_KERNELS(ADD_TWIN)
#undef ADD_TWIN
  return true;
}();

}  // namespace
}  // namespace weft::tests
