// The primitives of one node for one set of shapes, made once and run in every step.
#pragma once

#include <cstddef>
#include <dnnl.hpp>
#include <functional>
#include <utility>
#include <vector>

#include "bindings/onednn/operands.hpp"

namespace weft::dataflow::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

/// A tensor's sizes; {1} for a scalar, since oneDNN has none.
Dims dims_of(const Shape& shape);
/// f32 in row-major order.
Desc row_major(const Dims& dims);
/// f32 in any order: oneDNN chooses.
Desc any_layout(const Dims& dims);
/// For every primitive: its scratchpad is the routine's. oneDNN's own is one for all threads.
dnnl::primitive_attr own_scratchpad();

/// Primitives and functions that run one after the other, on slots: memory of the node's inputs and
/// outputs, and scratch memory, in which blocked layouts stay. Thread-safety: one thread at a time.
class Routine {
 public:
  using Slot = std::size_t;
  /// DNNL_ARG_SRC and the like, and the memory.
  using Arguments = std::vector<std::pair<int, Slot>>;
  using Function = std::function<void(const Routine&, const Operands&)>;

  explicit Routine(const dnnl::engine& engine) : engine_(engine), stream_(engine) {}

  const dnnl::engine& engine() const noexcept { return engine_; }

  /// Memory of an input or output, in the layout `desc`, which must not need more bytes.
  Slot input(std::size_t i, const Desc& desc) { return add_slot(Kind::input, i, desc); }
  Slot output(std::size_t i, const Desc& desc) { return add_slot(Kind::output, i, desc); }
  Slot scratch(const Desc& desc);
  /// The same memory in another layout.
  Slot view(Slot slot, const Desc& desc);
  const Desc& desc(Slot slot) const noexcept { return slots_[slot].desc; }

  /// Adds a primitive.
  template <typename Primitive>
  void run(const typename Primitive::primitive_desc& primitive, const Arguments& arguments) {
    run(Primitive(primitive), primitive.scratchpad_desc(), arguments);
  }
  void run(const dnnl::primitive& primitive, const Desc& scratchpad, const Arguments& arguments);
  void run(Function function) { steps_.push_back({{}, {}, std::move(function)}); }
  void reorder(Slot from, Slot to);
  void zero(Slot slot);
  /// `from` in the layout `desc`: itself if it has it, otherwise in scratch memory, by a reorder.
  Slot reordered(Slot from, const Desc& desc);
  /// Memory of layout `desc` for a result that belongs into `to`: `to` itself if it has that
  /// layout, otherwise scratch memory. After the primitive, call deliver(slot, to).
  Slot before_delivery(Slot to, const Desc& desc);
  void deliver(Slot from, Slot to) {
    if (from != to) reorder(from, to);
  }

  /// For functions, while the routine runs.
  template <typename T>
  T* data(Slot slot) const noexcept {
    return reinterpret_cast<T*>(slots_[slot].data);
  }
  std::size_t bytes(Slot slot) const { return slots_[slot].desc.get_size(); }

  std::size_t scratch_bytes() const noexcept { return scratch_bytes_ + scratchpad_bytes_; }
  /// `scratch`: scratch_bytes() bytes, aligned to 64. Throws dnnl::error.
  void execute(const Operands& operands, std::byte* scratch);

 private:
  enum class Kind { input, output, scratch, scratchpad };
  struct SlotState {
    Kind kind;
    std::size_t at;  ///< an input's or output's number; scratch: bytes from its beginning
    Desc desc;
    dnnl::memory memory;
    std::byte* data;
  };
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
    Function function;
  };

  Slot add_slot(Kind kind, std::size_t at, const Desc& desc);
  void bind(SlotState& slot, const Operands& operands, std::byte* scratch) const;

  dnnl::engine engine_;
  dnnl::stream stream_;
  std::vector<SlotState> slots_;
  std::vector<Step> steps_;
  std::size_t scratch_bytes_ = 0;
  std::size_t scratchpad_bytes_ = 0;  ///< of the largest: primitives run one after the other
};

}  // namespace weft::dataflow::onednn
