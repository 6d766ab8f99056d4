// Operator definitions of the dataflow layer: signature, shape function, gradient, use of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "weft/api.hpp"
#include "weft/tensor.hpp"

namespace weft::dataflow {

class Graph;

/// A dimension whose size the graph leaves open: it may be another one in every step.
inline constexpr std::int64_t kAnySize = -1;

/// A shape with a fixed number of dimensions, some of whose sizes may be open (kAnySize).
class WEFT_API PartialShape {
 public:
  /// A scalar.
  PartialShape() noexcept = default;
  /// Throws Error(bad_argument) if there are more than 8 dimensions, one is below kAnySize, or the
  /// product of the known ones is above Shape::kMaxElements.
  PartialShape(std::initializer_list<std::int64_t> dims);
  explicit PartialShape(std::span<const std::int64_t> dims);
  PartialShape(const Shape& shape);

  std::size_t dims() const noexcept { return dims_.size(); }
  /// The size of dimension `i`, which must be below dims(); kAnySize if it is open.
  std::int64_t operator[](std::size_t i) const noexcept { return dims_[i]; }
  std::span<const std::int64_t> sizes() const noexcept { return dims_; }
  /// True if no dimension is open.
  bool known() const noexcept;
  /// Throws Error(bad_argument) unless known().
  Shape shape() const;
  /// True if `shape` has as many dimensions, and the same size wherever this one's is known.
  bool fits(const PartialShape& shape) const noexcept;
  /// For example "[?, 4]".
  std::string text() const;

  friend bool operator==(const PartialShape&, const PartialShape&) = default;

 private:
  std::vector<std::int64_t> dims_;
};

/// The analysis' knowledge of one tensor.
struct WEFT_API TensorType {
  DType dtype = DType::f32;
  PartialShape shape;

  /// For example "f32[?, 4]".
  std::string text() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// Output `output` of node `node` of a graph. The default stands for no tensor, such as an optional
/// input that is left out.
struct TensorId {
  std::int32_t node = -1;
  std::int32_t output = 0;

  bool none() const noexcept { return node < 0; }
  friend bool operator==(const TensorId&, const TensorId&) = default;
  friend bool operator<(const TensorId& a, const TensorId& b) noexcept {
    return a.node != b.node ? a.node < b.node : a.output < b.output;
  }
};

/// A list of sizes or axes, as an attribute.
using Sizes = std::vector<std::int64_t>;
using AttributeValue = std::variant<std::int64_t, double, std::string, Sizes>;

/// A node's attributes by name. The getters throw Error(bad_argument) if there is no attribute of
/// that name and type.
class WEFT_API Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, AttributeValue>> values);

  void set(std::string name, AttributeValue value);
  const AttributeValue* find(std::string_view name) const noexcept;
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& word(std::string_view name) const;
  const Sizes& sizes(std::string_view name) const;
  /// For example "axis=1 perm=[1, 0]", ordered by name: equal attributes have equal texts.
  std::string text() const;

  auto begin() const noexcept { return values_.begin(); }
  auto end() const noexcept { return values_.end(); }
  friend bool operator==(const Attributes&, const Attributes&) = default;

 private:
  std::map<std::string, AttributeValue, std::less<>> values_;
};

/// The arguments of a shape function: the types of a node's inputs and the node's attributes.
class WEFT_API Inference {
 public:
  Inference(std::string_view node, const Attributes& attributes,
            std::span<const std::optional<TensorType>> inputs) noexcept
      : node_(node), attributes_(attributes), inputs_(inputs) {}

  const Attributes& attributes() const noexcept { return attributes_; }
  std::size_t inputs() const noexcept { return inputs_.size(); }
  /// False for an optional input that is left out.
  bool has(std::size_t i) const noexcept { return i < inputs_.size() && inputs_[i].has_value(); }
  /// Requires has(i).
  const TensorType& input(std::size_t i) const noexcept { return *inputs_[i]; }
  const PartialShape& shape(std::size_t i) const noexcept { return inputs_[i]->shape; }
  DType dtype(std::size_t i) const noexcept { return inputs_[i]->dtype; }
  /// Throws Error(bad_argument) that names the node and the types of its inputs.
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  std::string_view node_;
  const Attributes& attributes_;
  std::span<const std::optional<TensorType>> inputs_;
};

/// The arguments of a gradient function. It adds the nodes of the gradient to the graph, which get
/// the placement of the node.
class WEFT_API GradientBuilder {
 public:
  /// `gradients`: of the node's outputs; none where the loss doesn't depend on the output.
  /// `needs`: the inputs whose gradients are asked for.
  GradientBuilder(Graph& graph, std::int32_t node, std::vector<TensorId> gradients,
                  std::vector<bool> needs);

  Graph& graph() const noexcept { return graph_; }
  const Attributes& attributes() const noexcept { return attributes_; }
  std::size_t inputs() const noexcept { return inputs_.size(); }
  /// Input `i`; none if it is left out.
  TensorId input(std::size_t i) const noexcept {
    return i < inputs_.size() ? inputs_[i] : TensorId{};
  }
  /// False if no node reads the gradient of input `i`: return none, and add no node for it.
  bool needs(std::size_t i) const noexcept { return needs_[i]; }
  TensorId output(std::size_t i) const noexcept;
  std::size_t outputs() const noexcept { return gradients_.size(); }
  /// The gradient of the loss with respect to output `i`, or none.
  TensorId gradient(std::size_t i) const noexcept { return gradients_[i]; }
  /// The same, as zeros of the output's shape in place of none.
  TensorId gradient_or_zeros(std::size_t i);
  /// Adds a node and returns its first output.
  TensorId add(std::string_view definition, std::vector<TensorId> inputs,
               Attributes attributes = {});

 private:
  // Copies: adding nodes moves the graph's own.
  Graph& graph_;
  std::int32_t node_;
  Attributes attributes_;
  std::vector<TensorId> inputs_;
  std::vector<TensorId> gradients_;
  std::vector<bool> needs_;
};

/// An input or output of a definition. Only the last one may be variadic.
struct Parameter {
  enum class Count : std::uint8_t { one, optional, variadic };
  std::string name;
  Count count = Count::one;
};

/// An attribute of a definition: its value where a node doesn't give one, which also says its type.
struct AttributeSpec {
  std::string name;
  AttributeValue value;
  bool required = false;
};

/// An output whose memory is that of an input. It doesn't count for a node that leaves either out.
struct Reuse {
  enum class Kind : std::uint8_t {
    may,    ///< the kernel also works with both in the same memory (in place)
    must,   ///< the kernel overwrites the input, which therefore has no other reader
    alias,  ///< the output is the input's memory, unchanged, under another shape
  };
  std::size_t input = 0;
  std::size_t output = 0;
  Kind kind = Kind::may;
};

/// An operator without its kernel. Definitions with a name of ONNX have ONNX's inputs, outputs and
/// attributes; a name of another origin has a prefix and a dot: "weft.Assign". A user's own
/// definition has the same means as weft's.
struct WEFT_API Definition {
  /// Returns the types of the outputs. Sizes that depend on open sizes are open, and so are those
  /// that depend on values. Refuses impossible inputs by Inference::refuse. Must be a function of
  /// its argument alone: every rank calls it, and several times.
  using InferFunction = std::function<std::vector<TensorType>(const Inference&)>;
  /// Returns the gradient with respect to each input; none where there is none.
  using GradientFunction = std::function<std::vector<TensorId>(GradientBuilder&)>;

  std::string name;
  std::vector<Parameter> inputs{};
  std::vector<Parameter> outputs{};
  std::vector<AttributeSpec> attributes{};
  InferFunction infer{};
  GradientFunction gradient{};  ///< empty: the operator can't be differentiated
  std::vector<Reuse> reuses{};

  /// Name, inputs, outputs, attributes with their defaults, and reuses as one line. Ranks compare
  /// it; the functions can't be compared.
  std::string text() const;
};

/// A set of definitions by name. Thread-safety: a value; reading from several threads is allowed.
class WEFT_API Definitions {
 public:
  /// weft's own, docs/dataflow.md lists them.
  static const Definitions& standard();

  /// Throws Error(duplicate_name) if there is one of that name, Error(bad_argument) if the
  /// definition has no name or shape function, a variadic parameter that is not the last, or a
  /// reuse of a parameter that it doesn't have.
  void add(Definition definition);
  /// Null if there is none of that name.
  std::shared_ptr<const Definition> find(std::string_view name) const;
  /// In alphabetical order.
  std::vector<std::string> names() const;

 private:
  std::map<std::string, std::shared_ptr<const Definition>, std::less<>> definitions_;
};

}  // namespace weft::dataflow
