// Kernels of the reference interpreter: plain loops over numbers of type double.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/dataflow/tape.hpp"
#include "weft/graph.hpp"

namespace weft::dataflow::reference {

inline std::size_t elements(const Sizes& sizes) {
  std::size_t all = 1;
  for (const std::int64_t size : sizes) all *= static_cast<std::size_t>(size);
  return all;
}

/// A dense tensor, whatever its dtype. Copies share the elements.
template <typename T>
struct ArrayOf {
  Sizes sizes;
  std::shared_ptr<std::vector<T>> data;

  ArrayOf() = default;
  explicit ArrayOf(Sizes wanted, T fill = T(0.0))
      : sizes(std::move(wanted)), data(std::make_shared<std::vector<T>>(elements(sizes), fill)) {}
  std::size_t size() const { return data->size(); }
  std::int64_t dim(std::size_t i) const { return sizes[i]; }
  T& operator[](std::size_t i) const { return (*data)[i]; }
  /// The element at an index of 2 to 4 dimensions.
  T& at(std::int64_t a, std::int64_t b) const { return (*data)[idx(a * sizes[1] + b)]; }
  T& at(std::int64_t a, std::int64_t b, std::int64_t c) const {
    return (*data)[idx((a * sizes[1] + b) * sizes[2] + c)];
  }
  T& at(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) const {
    return (*data)[idx(((a * sizes[1] + b) * sizes[2] + c) * sizes[3] + d)];
  }
  bool none() const { return data == nullptr; }

 private:
  static std::size_t idx(std::int64_t i) { return static_cast<std::size_t>(i); }
};
using Array = ArrayOf<double>;

template <typename T>
struct CallOf {
  const Attributes& attributes;
  std::vector<ArrayOf<T>> in;   ///< none: left out
  std::vector<ArrayOf<T>> out;  ///< of the right sizes; may share the elements of an input

  const ArrayOf<T>& x(std::size_t i) const { return in[i]; }
  bool has(std::size_t i) const { return i < in.size() && !in[i].none(); }
};
using Call = CallOf<double>;

/// The forward kernels that are differentiated by tape, for T = double or Var.
template <typename T>
bool run_differentiable(const std::string& name, CallOf<T>& call);
extern template bool run_differentiable(const std::string&, CallOf<double>&);
extern template bool run_differentiable(const std::string&, CallOf<Var>&);

/// LSTM and GRU.
template <typename T>
bool run_recurrent(const std::string& name, CallOf<T>& call);
extern template bool run_recurrent(const std::string&, CallOf<double>&);
extern template bool run_recurrent(const std::string&, CallOf<Var>&);

/// Runs the kernel of any standard definition. Throws std::runtime_error if there is none.
void run_kernel(const std::string& name, Call& call);

}  // namespace weft::dataflow::reference
