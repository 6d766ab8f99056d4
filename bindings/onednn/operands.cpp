#include "bindings/onednn/operands.hpp"

#include <fmt/format.h>

#include "base/fail.hpp"

namespace weft::dataflow::onednn {

std::string Operands::text() const {
  std::string types;
  for (std::size_t i = 0; i < inputs(); ++i) {
    if (i > 0) types += ", ";
    types += has(i) ? input(i).text() : "none";
  }
  return fmt::format("node '{}' ({}) with inputs ({})", node(), definition_, types);
}

void Operands::refuse(const std::string& why) const {
  throw_error(Code::bad_argument, "kernel", text() + ": " + why);
}

void Operands::need_f32() const {
  for (std::size_t i = 0; i < inputs(); ++i)
    if (has(i) && (dtype(i) == DType::f64 || dtype(i) == DType::f16 || dtype(i) == DType::bf16))
      refuse(fmt::format("input {} is {}; weft::operators computes in f32", i, name(dtype(i))));
}

}  // namespace weft::dataflow::onednn
