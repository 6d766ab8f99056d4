// Small random graphs: shapes that change, chains of in-place operators, aliases, assignments.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/dataflow/interpreter.hpp"
#include "weft/partition.hpp"

namespace weft::dataflow {

/// Sizes of the open dimensions of the feeds. The first feed's open dimension is `a` and so on.
struct OpenSizes {
  std::int64_t a, b;
};

class RandomGraph {
 public:
  explicit RandomGraph(std::uint64_t seed);

  const Graph& graph() const { return graph_; }
  /// All sizes that the open dimensions may have.
  static const std::vector<OpenSizes>& cases();
  /// The type of a tensor in each of cases(), by the shape functions of all nodes before it.
  const std::vector<TensorType>& types(TensorId tensor) const { return types_.at(tensor); }
  /// Places every node at random; assignments with their variables.
  void place(int ranks, bool some_on_gpu);
  /// Feeds and variables for the interpreter.
  reference::Run run(int steps, std::uint64_t order) const;

 private:
  using Concrete = std::vector<std::vector<TensorType>>;  // by case, by output

  std::uint64_t pick(std::uint64_t below) { return random_() % below; }
  TensorId any() { return pool_[pick(pool_.size())]; }
  void add_sources();
  void add_feed(int i);
  void try_add();
  void try_add(const std::string& definition, const std::vector<TensorId>& inputs,
               const Attributes& attributes);
  bool infer_all(const std::string& definition, const std::vector<TensorId>& inputs,
                 const Attributes& attributes, Concrete& types) const;
  Sizes random_shape(TensorId of);
  void add_fetches();
  /// The input whose memory `tensor` has, or none.
  TensorId memory_from(TensorId tensor) const;

  std::mt19937_64 random_;
  Graph graph_;
  std::vector<TensorId> pool_;
  std::vector<TensorId> variables_;
  std::map<TensorId, std::vector<TensorType>> types_;
  std::map<std::string, std::vector<int>> symbols_;  ///< of a feed's dimensions; -1: known
};

}  // namespace weft::dataflow
