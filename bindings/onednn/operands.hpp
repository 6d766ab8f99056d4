// The arguments of a kernel, with errors that name its node.
#pragma once

#include <cstddef>
#include <string>

#include "weft/executor.hpp"

namespace weft::dataflow::onednn {

/// A call of a kernel, and the name of its definition. Valid during the call.
class Operands {
 public:
  Operands(KernelCall& call, const std::string& definition) noexcept
      : call_(call), definition_(definition) {}

  const Attributes& attributes() const noexcept { return call_.attributes(); }
  const std::string& node() const noexcept { return call_.node(); }
  std::size_t inputs() const noexcept { return call_.inputs(); }
  bool has(std::size_t i) const noexcept { return call_.has(i); }
  const Tensor& input(std::size_t i) const noexcept { return call_.input(i); }
  const Shape& shape(std::size_t i) const noexcept { return input(i).shape(); }
  DType dtype(std::size_t i) const noexcept { return input(i).dtype(); }
  std::size_t outputs() const noexcept { return call_.outputs(); }
  const Tensor& output(std::size_t i) const { return call_.output(i); }

  /// "node 'conv1' (Conv) with inputs (f32[1, 3, 8, 8], f32[4, 3, 3, 3])".
  std::string text() const;
  /// Throws Error(bad_argument) that names the node and the types of its inputs.
  [[noreturn]] void refuse(const std::string& why) const;
  /// Refuses floating-point inputs of other types than f32.
  void need_f32() const;

 private:
  KernelCall& call_;
  const std::string& definition_;
};

}  // namespace weft::dataflow::onednn
