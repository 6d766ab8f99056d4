// A character-level LSTM: embedding, one LSTM layer, softmax; back-propagation through time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

namespace charlm {

struct LstmSizes {
  int vocabulary = 0;
  int embed = 0;
  int hidden = 0;
};

/// The model's tensors, or their gradients: row-major arrays in memory that the caller owns. The
/// four gates are adjacent, each `hidden` wide: input, forget, output, candidate.
template <typename Float>
struct LstmTensors {
  std::span<Float> embedding;       ///< [vocabulary, embed]
  std::span<Float> input_weights;   ///< [embed, 4 hidden]
  std::span<Float> hidden_weights;  ///< [hidden, 4 hidden]
  std::span<Float> gate_bias;       ///< [4 hidden]
  std::span<Float> output_weights;  ///< [hidden, vocabulary]
  std::span<Float> output_bias;     ///< [vocabulary]

  operator LstmTensors<const Float>() const requires(!std::is_const_v<Float>) {
    return {embedding, input_weights, hidden_weights, gate_bias, output_weights, output_bias};
  }
};

/// Fills the parameters with initial values, a function of the seed alone.
void initialize(const LstmSizes& sizes, std::uint64_t seed, const LstmTensors<float>& parameters);

/// The computation. It owns only its working memory, all allocated at construction, and no
/// parameters. Source: Hochreiter and Schmidhuber 1997 with the forget gate of Gers et al. 2000.
/// Thread-safety: one thread at a time.
class Lstm {
 public:
  virtual ~Lstm() = default;

  /// Returns the mean cross-entropy in nats per character over a batch of `sequences` windows, each
  /// starting from a zero state. Overwrites `gradients` with the gradients of that mean. `inputs`
  /// and `targets` are [length][sequences] tokens of the vocabulary.
  virtual double train(const LstmTensors<const float>& parameters,
                       const LstmTensors<float>& gradients, std::span<const std::int32_t> inputs,
                       std::span<const std::int32_t> targets) = 0;

  /// Reads one character of one sequence and returns the logits of the next one, valid until the
  /// next call. The state starts at zero and is carried from call to call, separately from
  /// train()'s.
  virtual std::span<const float> advance(const LstmTensors<const float>& parameters,
                                         std::int32_t token) = 0;

  /// The vector instructions in use: "baseline" or "avx2".
  virtual const char* instructions() const noexcept = 0;
};

/// Makes the fastest build that this processor can run.
std::unique_ptr<Lstm> make_lstm(const LstmSizes& sizes, int sequences, int length);

}  // namespace charlm
