// The LSTM in Eigen. This file is built once per instruction set, named by CHARLM_INSTRUCTIONS.
// Eigen's namespace is renamed for each build: otherwise the linker would merge the builds' inline
// functions and could run AVX code on a processor without AVX. No other file here includes Eigen.
#define CHARLM_JOIN_(a, b) a##b
#define CHARLM_JOIN(a, b) CHARLM_JOIN_(a, b)
#define CHARLM_TEXT_(a) #a
#define CHARLM_TEXT(a) CHARLM_TEXT_(a)
#define Eigen CHARLM_JOIN(eigen_, CHARLM_INSTRUCTIONS)
// Products pack their operands into scratch memory, which up to this size is on the stack.
#define EIGEN_STACK_ALLOCATION_LIMIT (2 << 20)

#include "lstm_kernel.hpp"

#include <Eigen/Core>

namespace charlm {
namespace CHARLM_INSTRUCTIONS {
namespace {

using Matrix = Eigen::MatrixXf;  // column-major: a row-major [a, b] array is a b x a matrix here
using Vector = Eigen::VectorXf;
using ConstMatrix = Eigen::Map<const Matrix>;
using ConstVector = Eigen::Map<const Vector>;
using MutableMatrix = Eigen::Map<Matrix>;
using MutableVector = Eigen::Map<Vector>;
using Eigen::Index;

template <typename MatrixType, typename VectorType, typename Float>
struct Mapped {
  MatrixType embedding, input_weights, hidden_weights;
  VectorType gate_bias;
  MatrixType output_weights;
  VectorType output_bias;

  Mapped(const LstmTensors<Float>& t, const LstmSizes& s)
      : embedding(t.embedding.data(), s.embed, s.vocabulary),
        input_weights(t.input_weights.data(), 4 * s.hidden, s.embed),
        hidden_weights(t.hidden_weights.data(), 4 * s.hidden, s.hidden),
        gate_bias(t.gate_bias.data(), 4 * s.hidden),
        output_weights(t.output_weights.data(), s.vocabulary, s.hidden),
        output_bias(t.output_bias.data(), s.vocabulary) {}
};
using Parameters = Mapped<ConstMatrix, ConstVector, const float>;
using Gradients = Mapped<MutableMatrix, MutableVector, float>;

// Adds column after column: the order of Eigen's own row sums depends on the alignment of `sum`, so
// two runs could differ in the last bit.
void add_columns(const Matrix& columns, MutableVector& sum) {
  sum.setZero();
  for (Index i = 0; i < columns.cols(); ++i) sum += columns.col(i);
}

class EigenLstm final : public Lstm {
 public:
  EigenLstm(const LstmSizes& sizes, int sequences, int length)
      : sizes_(sizes),
        width_(sequences),
        length_(length),
        embedded_(sizes.embed, width_ * length_),
        gates_(4 * sizes.hidden, width_ * length_),
        cells_(sizes.hidden, width_ * length_),
        cells_tanh_(sizes.hidden, width_ * length_),
        states_(sizes.hidden, width_ * length_),
        scores_(sizes.vocabulary, width_ * length_),
        d_gates_(4 * sizes.hidden, width_ * length_),
        d_states_(sizes.hidden, width_ * length_),
        d_embedded_(sizes.embed, width_ * length_),
        d_cell_(sizes.hidden, width_),
        step_gates_(4 * sizes.hidden),
        step_cell_(Vector::Zero(sizes.hidden)),
        step_state_(Vector::Zero(sizes.hidden)),
        step_scores_(sizes.vocabulary) {}

  double train(const LstmTensors<const float>& parameters, const LstmTensors<float>& gradients,
               std::span<const std::int32_t> inputs,
               std::span<const std::int32_t> targets) override {
    const Parameters p(parameters, sizes_);
    Gradients g(gradients, sizes_);
    forward(p, inputs);
    const double loss = losses(p, targets);
    backward_output(p, g);
    backward_time(p);
    backward_input(p, g, inputs);
    return loss;
  }

  std::span<const float> advance(const LstmTensors<const float>& parameters,
                                 std::int32_t token) override {
    const Parameters p(parameters, sizes_);
    const Index h = sizes_.hidden;
    step_gates_ = p.gate_bias;
    step_gates_.noalias() += p.input_weights * p.embedding.col(token);
    step_gates_.noalias() += p.hidden_weights * step_state_;
    step_gates_.head(3 * h) = step_gates_.head(3 * h).array().logistic();
    step_gates_.tail(h) = step_gates_.tail(h).array().tanh();
    step_cell_ = step_gates_.segment(h, h).cwiseProduct(step_cell_) +
                 step_gates_.head(h).cwiseProduct(step_gates_.tail(h));
    step_state_ = step_gates_.segment(2 * h, h).array() * step_cell_.array().tanh();
    step_scores_ = p.output_bias;
    step_scores_.noalias() += p.output_weights * step_state_;
    return {step_scores_.data(), static_cast<std::size_t>(step_scores_.size())};
  }

  const char* instructions() const noexcept override { return CHARLM_TEXT(CHARLM_INSTRUCTIONS); }

 private:
  // One time step's columns of a [.., length * sequences] matrix.
  auto at(Matrix& m, Index t) const { return m.middleCols(t * width_, width_); }
  // One gate's rows of one time step.
  auto gate(Matrix& m, Index t, Index k) const {
    return m.block(k * sizes_.hidden, t * width_, sizes_.hidden, width_).array();
  }

  void forward(const Parameters& p, std::span<const std::int32_t> inputs) {
    for (Index i = 0; i < embedded_.cols(); ++i)
      embedded_.col(i) = p.embedding.col(inputs[static_cast<std::size_t>(i)]);
    // One product for the inputs of all time steps; only the recurrent part has to go step by step.
    gates_.colwise() = p.gate_bias;
    gates_.noalias() += p.input_weights * embedded_;
    const Index h = sizes_.hidden;
    for (Index t = 0; t < length_; ++t) {
      if (t > 0) at(gates_, t).noalias() += p.hidden_weights * at(states_, t - 1);
      auto sigmoids = at(gates_, t).topRows(3 * h).array();
      sigmoids = sigmoids.logistic();
      gate(gates_, t, 3) = gate(gates_, t, 3).tanh();
      at(cells_, t) = gate(gates_, t, 0) * gate(gates_, t, 3);
      if (t > 0) at(cells_, t).array() += gate(gates_, t, 1) * at(cells_, t - 1).array();
      at(cells_tanh_, t) = at(cells_, t).array().tanh();
      at(states_, t) = gate(gates_, t, 2) * at(cells_tanh_, t).array();
    }
  }

  // Leaves in scores_ the gradient of the mean loss with respect to the logits.
  double losses(const Parameters& p, std::span<const std::int32_t> targets) {
    scores_.colwise() = p.output_bias;
    scores_.noalias() += p.output_weights * states_;
    const Index count = scores_.cols();
    double total = 0.0;
    for (Index i = 0; i < count; ++i) {
      const Index target = targets[static_cast<std::size_t>(i)];
      auto column = scores_.col(i).array();
      column -= column.maxCoeff();
      const float chosen = column(target);
      column = column.exp();
      const float sum = column.sum();
      total += static_cast<double>(Eigen::numext::log(sum) - chosen);
      column *= 1.0F / (sum * static_cast<float>(count));
      column(target) -= 1.0F / static_cast<float>(count);
    }
    return total / static_cast<double>(count);
  }

  void backward_output(const Parameters& p, Gradients& g) {
    g.output_weights.noalias() = scores_ * states_.transpose();
    add_columns(scores_, g.output_bias);
    d_states_.noalias() = p.output_weights.transpose() * scores_;
  }

  void backward_time(const Parameters& p) {
    d_cell_.setZero();
    for (Index t = length_ - 1; t >= 0; --t) {
      if (t + 1 < length_)
        at(d_states_, t).noalias() += p.hidden_weights.transpose() * at(d_gates_, t + 1);
      const auto in = gate(gates_, t, 0);
      const auto forget = gate(gates_, t, 1);
      const auto out = gate(gates_, t, 2);
      const auto candidate = gate(gates_, t, 3);
      const auto cell_tanh = at(cells_tanh_, t).array();
      const auto d_state = at(d_states_, t).array();
      auto d_cell = d_cell_.array();
      d_cell += d_state * out * (1.0F - cell_tanh.square());
      gate(d_gates_, t, 0) = d_cell * candidate * in * (1.0F - in);
      if (t > 0)
        gate(d_gates_, t, 1) = d_cell * at(cells_, t - 1).array() * forget * (1.0F - forget);
      else
        gate(d_gates_, t, 1).setZero();
      gate(d_gates_, t, 2) = d_state * cell_tanh * out * (1.0F - out);
      gate(d_gates_, t, 3) = d_cell * in * (1.0F - candidate.square());
      d_cell *= forget;
    }
  }

  void backward_input(const Parameters& p, Gradients& g, std::span<const std::int32_t> inputs) {
    const Index later = (length_ - 1) * width_;
    g.hidden_weights.noalias() = d_gates_.rightCols(later) * states_.leftCols(later).transpose();
    g.input_weights.noalias() = d_gates_ * embedded_.transpose();
    add_columns(d_gates_, g.gate_bias);
    d_embedded_.noalias() = p.input_weights.transpose() * d_gates_;
    g.embedding.setZero();
    for (Index i = 0; i < d_embedded_.cols(); ++i)
      g.embedding.col(inputs[static_cast<std::size_t>(i)]) += d_embedded_.col(i);
  }

  LstmSizes sizes_;
  Index width_;   // sequences
  Index length_;  // time steps
  // Each has one column per time step and sequence, time steps outermost.
  Matrix embedded_, gates_, cells_, cells_tanh_, states_, scores_;
  Matrix d_gates_, d_states_, d_embedded_;
  Matrix d_cell_;
  Vector step_gates_, step_cell_, step_state_, step_scores_;
};

}  // namespace

std::unique_ptr<Lstm> make_lstm(const LstmSizes& sizes, int sequences, int length) {
  return std::unique_ptr<Lstm>(new EigenLstm(sizes, sequences, length));
}

}  // namespace CHARLM_INSTRUCTIONS
}  // namespace charlm
