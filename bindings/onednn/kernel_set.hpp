// weft's kernels by subject.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "bindings/onednn/routine_cache.hpp"

namespace weft::dataflow::onednn {

using Loops = void (*)(const Operands&);

/// Kernels that are added to a user's own, which come first.
class KernelSet {
 public:
  explicit KernelSet(Kernels own) : kernels_(std::move(own)) {}

  void add(const std::string& definition, Kernel kernel) {
    if (kernels_.find(definition) == nullptr) kernels_.add(definition, std::move(kernel));
  }
  /// A kernel of oneDNN's primitives.
  Kernel primitives(const std::string& definition, Build build, Rules rules = {}) const {
    auto cache = std::make_shared<RoutineCache>(definition, build, rules, library_);
    return [cache](KernelCall& call) { cache->run(call); };
  }
  void add_primitives(const std::string& definition, Build build, Rules rules = {}) {
    add(definition, primitives(definition, build, rules));
  }
  /// A kernel in plain loops, for what oneDNN doesn't have.
  void add_loops(const std::string& definition, Loops loops) {
    add(definition, [definition, loops](KernelCall& call) { loops(Operands(call, definition)); });
  }
  /// oneDNN's primitives for operands that it takes, otherwise loops.
  void add_either(const std::string& definition, bool (*has_primitive)(const Operands&),
                  Build build, Loops loops) {
    add(definition, [definition, has_primitive, loops,
                     kernel = primitives(definition, build)](KernelCall& call) {
      const Operands operands(call, definition);
      has_primitive(operands) ? kernel(call) : loops(operands);
    });
  }
  Kernels take() { return std::move(kernels_); }

 private:
  Kernels kernels_;
  std::shared_ptr<Library> library_ = std::make_shared<Library>();
};

void add_matrices(KernelSet& set);       // MatMul, Gemm
void add_convolution(KernelSet& set);    // Conv
void add_pooling(KernelSet& set);        // MaxPool, AveragePool
void add_normalisation(KernelSet& set);  // BatchNormalization
void add_elementwise(KernelSet& set);    // Add, Mul, Sum, weft.Scale
void add_activations(KernelSet& set);    // Relu, Sigmoid, Tanh, Dropout
void add_reductions(KernelSet& set);     // ReduceSum, ReduceMean, ReduceMax, weft.SumTo
void add_recurrent(KernelSet& set);      // LSTM, GRU
void add_loss(KernelSet& set);           // SoftmaxCrossEntropyLoss
void add_lookups(KernelSet& set);        // Gather
void add_movement(KernelSet& set);       // Concat, Split, Transpose, weft.Fill, weft.ZerosLike

}  // namespace weft::dataflow::onednn
