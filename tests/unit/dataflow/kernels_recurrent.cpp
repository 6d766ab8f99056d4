// LSTM and GRU as ONNX defines them.
#include "tests/unit/dataflow/kernels.hpp"

namespace weft::dataflow::reference {
namespace {

template <typename T>
T sigmoid(const T& x) {
  return T(1.0) / (T(1.0) + exp(T(0.0) - x));
}

/// One direction of a recurrent operator.
template <typename T>
class Direction {
 public:
  Direction(CallOf<T>& call, std::int64_t direction, std::int64_t gates)
      : call_(call),
        direction_(direction),
        hidden_(call.attributes.integer("hidden_size")),
        gates_(gates) {}

  std::int64_t hidden() const { return hidden_; }
  /// Row `row` of W applied to the input, with its bias.
  T of_input(std::int64_t step, std::int64_t n, std::int64_t row) const {
    T sum = bias(row);
    const auto& x = call_.x(0);
    for (std::int64_t i = 0; i < x.dim(2); ++i)
      sum += x.at(step, n, i) * call_.x(1).at(direction_, row, i);
    return sum;
  }
  /// Row `row` of R applied to a state, with its bias.
  T of_state(const std::vector<T>& h, std::int64_t row) const {
    T sum = bias(gates_ * hidden_ + row);
    for (std::int64_t i = 0; i < hidden_; ++i)
      sum += h[static_cast<std::size_t>(i)] * call_.x(2).at(direction_, row, i);
    return sum;
  }
  std::vector<T> initial(std::size_t input, std::int64_t n) const {
    std::vector<T> state(static_cast<std::size_t>(hidden_), T(0.0));
    if (call_.has(input))
      for (std::int64_t i = 0; i < hidden_; ++i)
        state[static_cast<std::size_t>(i)] = call_.x(input).at(direction_, n, i);
    return state;
  }
  std::int64_t step(std::int64_t t) const {
    const std::string& name = call_.attributes.word("direction");
    const bool backwards = name == "reverse" || direction_ == 1;
    return backwards ? call_.x(0).dim(0) - 1 - t : t;
  }
  void put(std::size_t output, std::int64_t n, const std::vector<T>& state) const {
    for (std::int64_t i = 0; i < hidden_; ++i)
      call_.out[output].at(direction_, n, i) = state[static_cast<std::size_t>(i)];
  }
  void put_step(std::int64_t step, std::int64_t n, const std::vector<T>& state) const {
    for (std::int64_t i = 0; i < hidden_; ++i)
      call_.out[0].at(step, direction_, n, i) = state[static_cast<std::size_t>(i)];
  }

 private:
  T bias(std::int64_t row) const { return call_.has(3) ? call_.x(3).at(direction_, row) : T(0.0); }

  CallOf<T>& call_;
  std::int64_t direction_;
  std::int64_t hidden_;
  std::int64_t gates_;
};

template <typename T>
void lstm(CallOf<T>& call, std::int64_t direction, std::int64_t n) {
  const Direction<T> d(call, direction, 4);
  std::vector<T> h = d.initial(5, n);
  std::vector<T> c = d.initial(6, n);
  for (std::int64_t t = 0; t < call.x(0).dim(0); ++t) {
    const std::int64_t step = d.step(t);
    std::vector<T> next = h;
    for (std::int64_t i = 0; i < d.hidden(); ++i) {
      const auto gate = [&](std::int64_t which) {
        const std::int64_t row = which * d.hidden() + i;
        return d.of_input(step, n, row) + d.of_state(h, row);
      };
      T& cell = c[static_cast<std::size_t>(i)];
      cell = sigmoid(gate(2)) * cell + sigmoid(gate(0)) * tanh(gate(3));
      next[static_cast<std::size_t>(i)] = sigmoid(gate(1)) * tanh(cell);
    }
    h = next;
    d.put_step(step, n, h);
  }
  d.put(1, n, h);
  d.put(2, n, c);
}

template <typename T>
void gru(CallOf<T>& call, std::int64_t direction, std::int64_t n) {
  const Direction<T> d(call, direction, 3);
  const bool linear_first = call.attributes.integer("linear_before_reset") != 0;
  std::vector<T> h = d.initial(5, n);
  for (std::int64_t t = 0; t < call.x(0).dim(0); ++t) {
    const std::int64_t step = d.step(t);
    std::vector<T> z = h;
    std::vector<T> r = h;
    std::vector<T> reset = h;
    for (std::int64_t i = 0; i < d.hidden(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      z[at] = sigmoid(d.of_input(step, n, i) + d.of_state(h, i));
      r[at] = sigmoid(d.of_input(step, n, d.hidden() + i) + d.of_state(h, d.hidden() + i));
      reset[at] = r[at] * h[at];
    }
    std::vector<T> next = h;
    for (std::int64_t i = 0; i < d.hidden(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t row = 2 * d.hidden() + i;
      const T state = linear_first ? r[at] * d.of_state(h, row) : d.of_state(reset, row);
      next[at] = (T(1.0) - z[at]) * tanh(d.of_input(step, n, row) + state) + z[at] * h[at];
    }
    h = next;
    d.put_step(step, n, h);
  }
  d.put(1, n, h);
}

}  // namespace

template <typename T>
bool run_recurrent(const std::string& name, CallOf<T>& call) {
  if (name != "LSTM" && name != "GRU") return false;
  for (std::int64_t direction = 0; direction < call.x(1).dim(0); ++direction)
    for (std::int64_t n = 0; n < call.x(0).dim(1); ++n)
      name == "LSTM" ? lstm(call, direction, n) : gru(call, direction, n);
  return true;
}
template bool run_recurrent(const std::string&, CallOf<double>&);
template bool run_recurrent(const std::string&, CallOf<Var>&);

}  // namespace weft::dataflow::reference
