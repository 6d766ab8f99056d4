// How the gradients of all ranks become the parameters of the next step.
#pragma once

#include <string>
#include <vector>

#include "gpu.hpp"
#include "weft/pslib.hpp"
#include "weft/weft.hpp"

namespace images {

/// Every rank's parameters are the same after begin() and after each update().
class Exchange {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange() = default;

  virtual weft::Tensor parameter(const std::string& name) = 0;
  virtual weft::Tensor gradient(const std::string& name) = 0;
  /// Makes rank 0's first values everybody's.
  virtual void begin() = 0;
  /// Takes a step of Adam by the mean of the ranks' gradients, which must be complete.
  virtual void update() = 0;

  // The same as a part of a GPU's work, for those that can.
  /// False: update() is for gradients that are complete.
  virtual bool goes_by_stream() const { return false; }
  /// Sets what the next step needs. The GPU must have done the last one.
  virtual void set() {}
  /// Puts the step on the stream.
  virtual void put_on_stream() {}
  /// The GPU has done the step. Throws if ranks are missing in it.
  virtual void check() {}
};

/// By a parameter server: every rank has a share of the parameters, which it updates for all.
class ByTable final : public Exchange {
 public:
  ByTable(weft::World& world, std::vector<weft::pslib::TensorSpec> specs, weft::Memory memory,
          float learning_rate);

  weft::Tensor parameter(const std::string& name) override { return table_.parameter(name); }
  weft::Tensor gradient(const std::string& name) override { return table_.gradient(name); }
  void begin() override { table_.initialize().or_throw(); }
  void update() override { table_.push_pull().or_throw(); }

 private:
  weft::pslib::ParameterServer server_;
  weft::pslib::Table table_;
};

/// By a sum over all ranks, each of which updates its own copy of the parameters.
class ByAllReduce final : public Exchange {
 public:
  /// `gpu` computes on tensors in its memory; null: the processor does.
  ByAllReduce(weft::World& world, std::vector<weft::pslib::TensorSpec> specs, weft::Memory memory,
              float learning_rate, Gpu* gpu);

  weft::Tensor parameter(const std::string& name) override { return part(parameters_, name); }
  weft::Tensor gradient(const std::string& name) override { return part(gradients_, name); }
  void begin() override;
  void update() override;
  bool goes_by_stream() const override { return gpu_ != nullptr; }
  void set() override;
  void put_on_stream() override;
  void check() override;

 private:
  kernels::Adam adam(const weft::Tensor& rates) const;
  weft::Tensor part(const weft::Tensor& all, const std::string& name) const;
  weft::Tensor zeros(weft::World& world, weft::Memory memory) const;

  const std::vector<weft::pslib::TensorSpec> specs_;
  const float learning_rate_;
  weft::World& world_;
  Gpu* const gpu_;
  weft::Tensor parameters_, gradients_;  // one after another
  weft::Tensor first_, second_;          // Adam's moments
  weft::Tensor rates_here_, rates_;      // of the step, in host memory and on the GPU
  weft::Collectives ranks_;
  weft::Plan sum_;
  int step_ = 0;
};

}  // namespace images
