#include "bindings/onednn/routine.hpp"

#include <algorithm>
#include <cstring>

namespace weft::dataflow::onednn {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Dims dims_of(const Shape& shape) {
  Dims dims;
  for (std::size_t i = 0; i < shape.dims(); ++i) dims.push_back(shape[i]);
  if (dims.empty()) dims.push_back(1);
  return dims;
}

Desc row_major(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return {dims, dnnl::memory::data_type::f32, strides};
}

Desc any_layout(const Dims& dims) {
  return {dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
}

dnnl::primitive_attr own_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

Routine::Slot Routine::add_slot(Kind kind, std::size_t at, const Desc& desc) {
  slots_.push_back({kind, at, desc, dnnl::memory(desc, engine_, DNNL_MEMORY_NONE), nullptr});
  return slots_.size() - 1;
}

Routine::Slot Routine::scratch(const Desc& desc) {
  const std::size_t at = scratch_bytes_;
  scratch_bytes_ += aligned(desc.get_size());
  return add_slot(Kind::scratch, at, desc);
}

Routine::Slot Routine::view(Slot slot, const Desc& desc) {
  return add_slot(slots_[slot].kind, slots_[slot].at, desc);
}

void Routine::run(const dnnl::primitive& primitive, const Desc& scratchpad,
                  const Arguments& arguments) {
  Step step{primitive, {}, {}};
  for (const auto& [argument, slot] : arguments)
    step.arguments.push_back({argument, slots_[slot].memory.get()});
  if (scratchpad.get_size() > 0) {
    const Slot pad = add_slot(Kind::scratchpad, 0, scratchpad);
    scratchpad_bytes_ = std::max(scratchpad_bytes_, aligned(scratchpad.get_size()));
    step.arguments.push_back({DNNL_ARG_SCRATCHPAD, slots_[pad].memory.get()});
  }
  steps_.push_back(std::move(step));
}

void Routine::reorder(Slot from, Slot to) {
  run<dnnl::reorder>({engine_, desc(from), engine_, desc(to), own_scratchpad()},
                     {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

void Routine::zero(Slot slot) {
  run([slot](const Routine& routine, const Operands&) {
    std::memset(routine.data<std::byte>(slot), 0, routine.bytes(slot));
  });
}

Routine::Slot Routine::reordered(Slot from, const Desc& wanted) {
  if (desc(from) == wanted) return from;
  const Slot to = scratch(wanted);
  reorder(from, to);
  return to;
}

Routine::Slot Routine::before_delivery(Slot to, const Desc& wanted) {
  return desc(to) == wanted ? to : scratch(wanted);
}

void Routine::bind(SlotState& slot, const Operands& operands, std::byte* scratch) const {
  std::byte* data = scratch;
  switch (slot.kind) {
    case Kind::input:
      data = operands.input(slot.at).data();
      break;
    case Kind::output:
      data = operands.output(slot.at).data();
      break;
    case Kind::scratch:
      data = scratch + slot.at;
      break;
    case Kind::scratchpad:
      data = scratch + scratch_bytes_;
      break;
  }
  if (data == slot.data) return;
  slot.data = data;
  slot.memory.set_data_handle(data);
}

void Routine::execute(const Operands& operands, std::byte* scratch) {
  for (SlotState& slot : slots_) bind(slot, operands, scratch);
  for (const Step& step : steps_) {
    if (step.function) {
      step.function(*this, operands);
      continue;
    }
    // The C++ call would allocate a copy of the arguments.
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(step.primitive.get(), stream_.get(),
                               static_cast<int>(step.arguments.size()), step.arguments.data()),
        "the primitive failed");
  }
  stream_.wait();
}

}  // namespace weft::dataflow::onednn
