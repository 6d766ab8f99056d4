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

 private:
  weft::Tensor part(const weft::Tensor& all, const std::string& name) const;
  weft::Tensor zeros(weft::World& world, weft::Memory memory) const;

  const std::vector<weft::pslib::TensorSpec> specs_;
  const float learning_rate_;
  Gpu* const gpu_;
  weft::Tensor parameters_, gradients_;  // one after another
  weft::Tensor first_, second_;          // Adam's moments
  weft::Collectives ranks_;
  weft::Plan sum_;
  int step_ = 0;
};

}  // namespace images
