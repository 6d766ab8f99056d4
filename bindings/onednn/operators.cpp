#include "weft/operators.hpp"

#include <new>

#include "base/fail.hpp"
#include "bindings/onednn/kernel_set.hpp"

namespace weft::dataflow {

Kernels operators(Kernels own) try {
  onednn::KernelSet set(std::move(own));
  onednn::add_matrices(set);
  onednn::add_convolution(set);
  onednn::add_pooling(set);
  onednn::add_normalisation(set);
  onednn::add_elementwise(set);
  onednn::add_activations(set);
  onednn::add_reductions(set);
  onednn::add_recurrent(set);
  onednn::add_loss(set);
  onednn::add_lookups(set);
  onednn::add_movement(set);
  return set.take();
} catch (const std::bad_alloc&) {
  throw_error(Code::exhausted, "operators", "out of memory");
} catch (const dnnl::error& error) {
  throw_error(Code::system, "operators", std::string("oneDNN does not start: ") + error.what());
}

}  // namespace weft::dataflow
