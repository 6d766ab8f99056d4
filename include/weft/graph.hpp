// A dataflow graph: one training step as nodes and tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/api.hpp"
#include "weft/definition.hpp"
#include "weft/tensor.hpp"

namespace weft::dataflow {

using NodeId = std::int32_t;

/// The memory that a node's kernel works in.
enum class Memory : std::uint8_t { host, gpu };
WEFT_API std::string_view name(Memory memory) noexcept;

/// The rank and memory of a node.
struct Placement {
  int rank = -1;  ///< -1: not placed
  Memory memory = Memory::host;

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// One application of a definition.
struct Node {
  std::string name;
  std::shared_ptr<const Definition> definition;
  std::vector<TensorId> inputs;  ///< none: an optional input that is left out
  Attributes attributes;         ///< with the definition's defaults
  std::vector<TensorType> outputs;
  Placement placement;
  std::vector<NodeId> after;  ///< nodes that must have ended before this one starts
};

/// One step of a training loop, without cycles; the executor repeats it. Every rank builds the same
/// graph. Feeds, variables and fetches are nodes as well: "weft.Feed", "weft.Variable",
/// "weft.Fetch".
///
/// Contracts that analysis and executor share:
/// - A rank begins a step only after all its nodes of the step before have ended, sends too.
/// - A variable keeps its memory in all steps. A node that assigns a variable runs after all other
///   readers of the variable on its rank, which see the value of the step before.
/// - A fetched variable is copied before its assignment.
///
/// Errors name the node. Control calls: all methods may throw Error(bad_argument), for a node or
/// tensor that isn't there too. Thread-safety: as a standard container.
class WEFT_API Graph {
 public:
  /// `definitions`: those that add() knows: Definitions::standard() and the user's own.
  explicit Graph(const Definitions& definitions = Definitions::standard());

  /// A tensor that the application gives in every step. Open sizes may change from step to step;
  /// the number of dimensions may not.
  TensorId feed(std::string name, DType dtype, const PartialShape& shape);
  /// A tensor that keeps its value between steps.
  TensorId variable(std::string name, DType dtype, const Shape& shape);
  /// Gives `value` to `variable` at the end of the step. Returns the new value.
  TensorId assign(TensorId variable, TensorId value, std::string name = {});
  /// A tensor that the application gets in every step, on the rank that produces it, or on
  /// `placement`.
  NodeId fetch(TensorId tensor, std::string name, Placement placement = {});
  /// Applies a definition, infers the types of the outputs and returns the first output; the
  /// others are TensorId{result.node, i}. `name`: unique; empty: made from the definition's.
  /// Throws Error(duplicate_name) for a name that there is, Error(bad_argument) for an unknown
  /// definition or attribute, a wrong number of inputs, and whatever the shape function refuses.
  TensorId add(std::string_view definition, std::vector<TensorId> inputs,
               Attributes attributes = {}, std::string name = {});

  /// The placement of nodes that are added from now on.
  void place_next(Placement placement) noexcept { next_ = placement; }
  /// Places one node (model parallelism by annotation).
  void place(NodeId node, Placement placement);
  /// Connects input `input` of a node to another tensor. infer() renews the types then.
  void replace_input(NodeId node, std::size_t input, TensorId tensor);
  /// Lets `node` start only after `earlier` has ended.
  void run_after(NodeId node, NodeId earlier);
  /// Infers all types again and checks the whole: no cycle (after run_after and replace_input),
  /// shape functions that keep to their contract, variables assigned once, no in-place operator
  /// with a second reader. partition() calls it.
  void infer();

  std::size_t size() const noexcept { return nodes_.size(); }
  const Node& node(NodeId node) const;
  const TensorType& type(TensorId tensor) const;
  std::span<const Node> nodes() const noexcept { return nodes_; }
  /// The node of that name; throws Error(bad_argument) if there is none.
  NodeId find(std::string_view name) const;
  /// The nodes in an order in which they may run. Of nodes that are ready together the one added
  /// first comes first. Throws Error(bad_argument) if there is a cycle, naming its nodes.
  std::vector<NodeId> order() const;
  const Definitions& definitions() const noexcept {
    return definitions_ ? *definitions_ : Definitions::standard();
  }

  /// Throws Error(mismatch), naming the node, unless a tensor of `dtype` and `shape` is what the
  /// graph says of `tensor`: for feeds, and for results of kernels.
  void check_value(TensorId tensor, DType dtype, const Shape& shape) const;

  /// One line per node, with everything that ranks must agree on.
  std::string text() const;
  /// A hash of text(). Ranks whose graphs differ have different digests but for chance (2^-64).
  std::uint64_t digest() const;

 private:
  NodeId checked(NodeId node) const;
  void check_tensor(TensorId tensor, const std::string& reader) const;
  TensorId append(Node node);

  /// Copies of the graph share them. Null once moved from, when the graph is as a new one.
  std::shared_ptr<const Definitions> definitions_;
  std::vector<Node> nodes_;
  std::map<std::string, NodeId, std::less<>> names_;
  Placement next_;
};

/// Adds the gradient of `loss`, one floating-point number, with respect to each of `variables`
/// (variables, or any other tensors). Returns the gradients in their order. Each gradient node is
/// placed like the node that it belongs to. Throws Error(bad_argument), naming the node, if the
/// loss doesn't depend on a variable or an operator between them has no gradient.
WEFT_API std::vector<TensorId> gradients(Graph& graph, TensorId loss,
                                         std::span<const TensorId> variables);

/// Throws Error(mismatch) that names the first node that differs between this rank's graph and the
/// Graph::text() of another rank's. Returns if there is none.
WEFT_API void compare(const Graph& own, int own_rank, std::string_view text, int rank);

}  // namespace weft::dataflow
