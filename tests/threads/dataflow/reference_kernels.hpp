// The reference kernels as kernels of an executor.
#pragma once

#include <cstring>
#include <random>
#include <string>

#include "tests/unit/dataflow/interpreter.hpp"
#include "weft/executor.hpp"

namespace weft::dataflow {

namespace reference {

template <typename T>
void read_elements(const Tensor& tensor, const Array& array) {
  for (std::size_t i = 0; i < array.size(); ++i) array[i] = double(tensor.as<T>()[i]);
}
template <typename T>
void write_elements(const Array& array, const Tensor& tensor) {
  for (std::size_t i = 0; i < array.size(); ++i) tensor.as<T>()[i] = T(array[i]);
}

inline Array array_of(const Tensor& tensor) {
  Sizes sizes;
  for (std::size_t d = 0; d < tensor.shape().dims(); ++d) sizes.push_back(tensor.shape()[d]);
  Array array(sizes);
  switch (tensor.dtype()) {
    case DType::f64:
      read_elements<double>(tensor, array);
      break;
    case DType::f32:
      read_elements<float>(tensor, array);
      break;
    case DType::i64:
      read_elements<std::int64_t>(tensor, array);
      break;
    default:
      read_elements<std::uint8_t>(tensor, array);
  }
  return array;
}

inline void write_into(const Array& array, const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f64:
      return write_elements<double>(array, tensor);
    case DType::f32:
      return write_elements<float>(array, tensor);
    case DType::i64:
      return write_elements<std::int64_t>(array, tensor);
    default:
      return write_elements<std::uint8_t>(array, tensor);
  }
}

/// Gives outputs in memory that the kernel allocates itself, where the definition lets it.
inline void allocate_outputs(KernelCall& call, const Definition& definition) {
  for (std::size_t o = 0; o < call.outputs(); ++o) {
    const Tensor output = call.output(o);
    bool has_own = true;
    for (const Reuse& reuse : definition.reuses)
      if (reuse.output == o && reuse.kind != Reuse::Kind::may) has_own = false;
    if (!has_own || output.shape().dims() == 0) continue;
    std::vector<std::int64_t> sizes;
    for (std::size_t d = 0; d < output.shape().dims(); ++d) sizes.push_back(output.shape()[d]);
    ++sizes[0];
    const Shape larger{std::span<const std::int64_t>(sizes)};
    const Tensor whole = call.allocate(output.dtype(), larger);
    call.give(o, whole.slice(0, 1, output.shape()[0]));
  }
}

/// Runs `kernel` on copies of the tensors; outputs that have an input's memory share its copy.
template <typename Kernel>
void run_on_tensors(KernelCall& call, const Kernel& kernel) {
  reference::Call arrays{call.attributes(), {}, {}};
  for (std::size_t i = 0; i < call.inputs(); ++i)
    arrays.in.push_back(call.has(i) ? array_of(call.input(i)) : Array());
  for (std::size_t o = 0; o < call.outputs(); ++o) {
    const Tensor& output = call.output(o);
    Array array = Array(array_of(output).sizes, std::nan(""));
    for (std::size_t i = 0; i < call.inputs(); ++i)
      if (call.has(i) && output.bytes() > 0 && call.input(i).data() == output.data())
        array.data = arrays.in[i].data;
    arrays.out.push_back(array);
  }
  kernel(arrays);
  for (std::size_t o = 0; o < call.outputs(); ++o) write_into(arrays.out[o], call.output(o));
}

}  // namespace reference

/// Kernels of all standard definitions, and of `own`, in both memories. With `allocate` those of
/// weft's definitions allocate their outputs themselves.
inline Kernels reference_kernels(const reference::OwnKernels& own = {}, bool allocate = false) {
  Kernels kernels;
  for (const Memory memory : {Memory::host, Memory::gpu}) {
    for (const std::string& name : Definitions::standard().names())
      kernels.add(
          name,
          [name, allocate](KernelCall& call) {
            if (allocate) reference::allocate_outputs(call, *Definitions::standard().find(name));
            reference::run_on_tensors(
                call, [&](reference::Call& arrays) { reference::run_kernel(name, arrays); });
          },
          memory);
    for (const auto& [name, kernel] : own)
      kernels.add(
          name, [kernel = kernel](KernelCall& call) { reference::run_on_tensors(call, kernel); },
          memory);
  }
  return kernels;
}

/// Numbers between -1 and 1 that follow from the seed.
inline void fill_at_random(const Tensor& tensor, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const reference::Array array = reference::array_of(tensor);
  for (std::size_t i = 0; i < array.size(); ++i) array[i] = double(random() % 2001) / 1000 - 1;
  reference::write_into(array, tensor);
}

}  // namespace weft::dataflow
