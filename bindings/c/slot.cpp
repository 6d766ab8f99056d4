// Slots: exposed, attached to, waited for.
#include <memory>
#include <string>

#include "bindings/c/arrival.hpp"
#include "bindings/c/sized.hpp"
#include "bindings/c/slot.hpp"
#include "bindings/c/tensor.hpp"

namespace weft::c {

weft_slot_info slot_info(const SlotSpec& spec) {
  weft_slot_info info{};
  info.name = spec.name.c_str();
  info.dtype = static_cast<weft_dtype>(spec.dtype);
  info.depth = spec.depth;
  info.flow = static_cast<weft_flow>(spec.flow);
  info.placement = static_cast<weft_placement>(spec.placement);
  info.owner = -1;
  info.ndims = spec.shape.dims();
  for (std::size_t i = 0; i < info.ndims; ++i) info.dims[i] = spec.shape[i];
  return info;
}

Needed needed_of(weft_needed needed) {
  return checked_value("also_needs", "needed", needed, Needed::until_it_leaves);
}

}  // namespace weft::c

using namespace weft::c;

namespace {

weft::SlotSpec spec_of(const char* operation, const weft_slot_spec* given_spec,
                       const weft_slot_options& options = {}) {
  const auto& from = given(operation, "spec", given_spec);
  weft::SlotSpec spec;
  spec.name = &given(operation, "spec->name", from.name);
  spec.dtype = checked_dtype(operation, from.dtype);
  spec.shape = shape_of(operation, from.dims, from.ndims);
  spec.depth = from.depth;
  spec.flow = checked_value(operation, "flow", options.flow, weft::Flow::unsafe_synchronous);
  spec.placement =
      checked_value(operation, "placement", options.placement, weft::Placement::dynamic);
  if (options.place != nullptr) spec.memory = memory_in(operation, *options.place);
  return spec;
}

/// The tensor that a caller's function makes for an arrival. Throws Error with the function's code.
weft::Tensor allocated(weft_allocate_function allocate, void* context, weft::DType dtype,
                       const weft::Shape& shape) {
  std::int64_t dims[WEFT_MAX_DIMS] = {};
  for (std::size_t i = 0; i < shape.dims(); ++i) dims[i] = shape[i];
  weft_tensor* made = nullptr;
  const auto code = allocate(context, static_cast<weft_dtype>(dtype), dims, shape.dims(), &made);
  const std::unique_ptr<weft_tensor> handle(made);
  if (code != WEFT_CODE_OK)
    weft::throw_error(code > WEFT_CODE_OK && code <= WEFT_CODE_PARTITIONED
                          ? static_cast<weft::Code>(code)
                          : weft::Code::exhausted,
                      "wait", "the slot's allocate function gave no tensor");
  (void)given("wait", "the tensor of the slot's allocate function", made);
  check_writable("wait", *handle);
  return handle->tensor;
}

}  // namespace

weft_code weft_slot_expose(weft_world* world, const weft_slot_spec* spec, weft_slot** slot) {
  return guarded([&] {
    auto& owner = given("expose", "world", world);
    auto& out = given("expose", "slot", slot);
    out = new weft_slot{OpenIn(owner), owner.world.expose(spec_of("expose", spec))};
    return WEFT_CODE_OK;
  });
}

weft_code weft_slot_expose_in(weft_world* world, const weft_slot_spec* spec,
                              const weft_tensor* memory, weft_slot** slot) {
  return guarded([&] {
    auto& owner = given("expose", "world", world);
    auto& out = given("expose", "slot", slot);
    const auto& buffers = given("expose", "memory", memory);
    check_writable("expose", buffers);
    out = new weft_slot{OpenIn(owner), owner.world.expose(spec_of("expose", spec), buffers.tensor)};
    return WEFT_CODE_OK;
  });
}

weft_code weft_slot_attach(weft_world* world, int owner, const weft_slot_spec* spec,
                           double timeout_seconds, weft_remote_slot** remote) {
  return guarded([&] {
    auto& self = given("attach", "world", world);
    auto& out = given("attach", "remote", remote);
    out = new weft_remote_slot{
        OpenIn(self),
        self.world.attach(owner, spec_of("attach", spec), deadline("attach", timeout_seconds))};
    return WEFT_CODE_OK;
  });
}

weft_code weft_slot_close(weft_slot* slot) {
  return guarded([&] {
    auto& closing = in_rank("slot_close", "slot", slot);
    if (closing.held_arrivals > 0)
      weft::throw_error(
          weft::Code::bad_argument, "slot_close",
          std::to_string(closing.held_arrivals) + " arrivals are still held; release them first");
    delete slot;
    return WEFT_CODE_OK;
  });
}

weft_code weft_remote_slot_close(weft_remote_slot* remote) {
  return guarded([&] {
    check_closed("remote_slot_close", in_rank("remote_slot_close", "remote", remote).requests,
                 "requests of this slot");
    delete remote;
    return WEFT_CODE_OK;
  });
}

weft_code weft_slot_expose_with(weft_world* world, const weft_slot_spec* spec,
                                const weft_slot_options* options, weft_slot** slot) {
  return guarded([&] {
    auto& owner = given("expose", "world", world);
    auto& out = given("expose", "slot", slot);
    const auto more = read_optional("expose", "options", options);
    const auto wanted = spec_of("expose", spec, more);
    if (more.memory != nullptr) check_writable("expose", *more.memory);
    out = new weft_slot{OpenIn(owner), more.memory == nullptr
                                           ? owner.world.expose(wanted)
                                           : owner.world.expose(wanted, more.memory->tensor)};
    return WEFT_CODE_OK;
  });
}

weft_code weft_slot_attach_with(weft_world* world, int owner, const weft_slot_spec* spec,
                                const weft_slot_options* options, double timeout_seconds,
                                weft_remote_slot** remote) {
  return guarded([&] {
    auto& self = given("attach", "world", world);
    auto& out = given("attach", "remote", remote);
    const auto more = read_optional("attach", "options", options);
    if (more.memory != nullptr || more.place != nullptr)
      weft::throw_error(
          weft::Code::bad_argument, "attach",
          more.memory != nullptr ? "options->memory is not NULL" : "options->place is not NULL",
          "a slot's memory is its owner's");
    out =
        new weft_remote_slot{OpenIn(self), self.world.attach(owner, spec_of("attach", spec, more),
                                                             deadline("attach", timeout_seconds))};
    return WEFT_CODE_OK;
  });
}

weft_code weft_slot_attach_by_name(weft_world* world, int owner, const char* name,
                                   double timeout_seconds, weft_remote_slot** remote) {
  return guarded([&] {
    auto& self = given("attach", "world", world);
    auto& out = given("attach", "remote", remote);
    out =
        new weft_remote_slot{OpenIn(self), self.world.attach(owner, text_of("attach", "name", name),
                                                             deadline("attach", timeout_seconds))};
    return WEFT_CODE_OK;
  });
}

weft_code weft_slot_get_info(const weft_slot* slot, weft_slot_info* info) {
  return guarded([&] {
    const auto& from = in_rank("slot_info", "slot", slot);
    auto known = slot_info(from.slot.spec());
    known.owner = from.open.world().world.rank();
    write_sized("slot_info", "info", info, known);
    return WEFT_CODE_OK;
  });
}

weft_code weft_remote_slot_get_info(const weft_remote_slot* remote, weft_slot_info* info) {
  return guarded([&] {
    const auto& from = in_rank("slot_info", "remote", remote).remote;
    auto known = slot_info(from.spec());
    known.owner = from.owner();
    write_sized("slot_info", "info", info, known);
    return WEFT_CODE_OK;
  });
}

weft_code weft_slot_ready(const weft_slot* slot, int* ready) {
  return guarded([&] {
    auto& out = given("slot_ready", "ready", ready);
    out = in_rank("slot_ready", "slot", slot).slot.ready() ? 1 : 0;
    return WEFT_CODE_OK;
  });
}

weft_code weft_slot_allocate_with(weft_slot* slot, weft_allocate_function allocate, void* context) {
  return guarded([&] {
    auto& into = in_rank("allocate_with", "slot", slot).slot;
    (void)given("allocate_with", "allocate", allocate);
    into.allocate_with([allocate, context](weft::DType dtype, const weft::Shape& shape) {
      return allocated(allocate, context, dtype, shape);
    });
    return WEFT_CODE_OK;
  });
}

weft_code weft_slot_also_needs(weft_slot* slot, const int* ranks, size_t count,
                               weft_needed needed) {
  return guarded([&] {
    in_rank("also_needs", "slot", slot)
        .slot.also_needs(given("also_needs", "ranks", ranks, count), needed_of(needed));
    return WEFT_CODE_OK;
  });
}

weft_code weft_remote_slot_also_needs(weft_remote_slot* remote, const int* ranks, size_t count,
                                      weft_needed needed) {
  return guarded([&] {
    in_rank("also_needs", "remote", remote)
        .remote.also_needs(given("also_needs", "ranks", ranks, count), needed_of(needed));
    return WEFT_CODE_OK;
  });
}

weft_code weft_remote_slot_queue_pairs(const weft_remote_slot* remote, int* number) {
  return guarded([&] {
    auto& out = given("queue_pairs", "number", number);
    out = in_rank("queue_pairs", "remote", remote).remote.queue_pairs();
    return WEFT_CODE_OK;
  });
}

weft_code weft_remote_slot_use_queue_pair(weft_remote_slot* remote, int index) {
  return guarded([&] {
    in_rank("use_queue_pair", "remote", remote).remote.use_queue_pair(index);
    return WEFT_CODE_OK;
  });
}

weft_code weft_slot_wait(weft_slot* slot, double timeout_seconds, weft_arrival** arrival) {
  return guarded([&] {
    auto& from = given("wait", "slot", slot);
    auto& out = given("wait", "arrival", arrival);
    NewArrival held(from.open.world());
    return held.take(from.slot.wait(deadline("wait", timeout_seconds)), from.held_arrivals, out);
  });
}

weft_code weft_slot_wait_on(weft_slot* slot, void* const* stream, double timeout_seconds,
                            weft_arrival** arrival) {
  return guarded([&] {
    auto& from = given("wait", "slot", slot);
    auto& out = given("wait", "arrival", arrival);
    NewArrival held(from.open.world());
    return held.take(from.slot.wait_on(stream_in(stream), deadline("wait", timeout_seconds)),
                     from.held_arrivals, out);
  });
}
