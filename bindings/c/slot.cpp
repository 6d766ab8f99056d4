// Slots and what arrives in them.
#include <memory>
#include <string>
#include <utility>

#include "bindings/c/call.hpp"

using namespace weft::c;

namespace {

weft::SlotSpec spec_of(const char* operation, const weft_slot_spec* given_spec) {
  const auto& from = given(operation, "spec", given_spec);
  weft::SlotSpec spec;
  spec.name = &given(operation, "spec->name", from.name);
  spec.dtype = checked_dtype(operation, from.dtype);
  spec.shape = shape_of(operation, from.dims, from.ndims);
  spec.depth = from.depth;
  return spec;
}

}  // namespace

weft_code weft_slot_expose(weft_world* world, const weft_slot_spec* spec, weft_slot** slot) {
  return guarded([&] {
    auto& owner = given("expose", "world", world);
    auto& out = given("expose", "slot", slot);
    out = new weft_slot{owner.world.expose(spec_of("expose", spec)), world};
    ++owner.open_slots;
    return WEFT_CODE_OK;
  });
}

weft_code weft_slot_expose_in(weft_world* world, const weft_slot_spec* spec,
                              const weft_tensor* memory, weft_slot** slot) {
  return guarded([&] {
    auto& owner = given("expose", "world", world);
    auto& out = given("expose", "slot", slot);
    out = new weft_slot{
        owner.world.expose(spec_of("expose", spec), given("expose", "memory", memory).tensor),
        world};
    ++owner.open_slots;
    return WEFT_CODE_OK;
  });
}

weft_code weft_slot_attach(weft_world* world, int owner, const weft_slot_spec* spec,
                           double timeout_seconds, weft_remote_slot** remote) {
  return guarded([&] {
    auto& self = given("attach", "world", world);
    auto& out = given("attach", "remote", remote);
    out = new weft_remote_slot{
        self.world.attach(owner, spec_of("attach", spec), deadline("attach", timeout_seconds)),
        world};
    ++self.open_slots;
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
    auto* world = closing.world;
    delete slot;
    --world->open_slots;
    return WEFT_CODE_OK;
  });
}

weft_code weft_remote_slot_close(weft_remote_slot* remote) {
  return guarded([&] {
    auto* world = in_rank("remote_slot_close", "remote", remote).world;
    delete remote;
    --world->open_slots;
    return WEFT_CODE_OK;
  });
}

weft_code weft_put(weft_remote_slot* remote, const weft_tensor* tensor, double timeout_seconds) {
  return guarded([&] {
    auto& to = given("put", "remote", remote).remote;
    const auto& from = given("put", "tensor", tensor).tensor;
    const auto until = deadline("put", timeout_seconds);
    auto request = to.put(from);
    const auto status = request.wait(until);
    if (status.code() != weft::Code::timeout) return status.ok() ? WEFT_CODE_OK : remember(status);
    // The caller gets no request to wait for later, so nothing may stay pending.
    (void)request.cancel();
    const auto withdrawn = request.wait();
    if (withdrawn.ok()) return WEFT_CODE_OK;
    return remember(withdrawn.code() == weft::Code::cancelled ? status : withdrawn);
  });
}

weft_code weft_slot_wait(weft_slot* slot, double timeout_seconds, weft_arrival** arrival) {
  return guarded([&] {
    auto& from = given("wait", "slot", slot);
    auto& out = given("wait", "arrival", arrival);
    auto held =
        std::make_unique<weft_arrival>();  // first, so that a failed allocation loses no tensor
    auto result = from.slot.wait(deadline("wait", timeout_seconds));
    if (!result.ok()) return remember(result.status());
    held->arrival = std::move(*result);
    held->slot = slot;
    ++from.held_arrivals;
    out = held.release();
    return WEFT_CODE_OK;
  });
}

weft_code weft_arrival_data(const weft_arrival* arrival, const void** data) {
  return guarded([&] {
    given("arrival_data", "data", data) =
        in_rank("arrival_data", "arrival", arrival).arrival.tensor().data();
    return WEFT_CODE_OK;
  });
}

weft_code weft_arrival_bytes(const weft_arrival* arrival, size_t* bytes) {
  return guarded([&] {
    given("arrival_bytes", "bytes", bytes) =
        in_rank("arrival_bytes", "arrival", arrival).arrival.tensor().bytes();
    return WEFT_CODE_OK;
  });
}

weft_code weft_arrival_sequence(const weft_arrival* arrival, uint64_t* sequence) {
  return guarded([&] {
    given("arrival_sequence", "sequence", sequence) =
        in_rank("arrival_sequence", "arrival", arrival).arrival.sequence();
    return WEFT_CODE_OK;
  });
}

weft_code weft_arrival_release(weft_arrival* arrival) {
  return guarded([&] {
    auto* slot = in_rank("arrival_release", "arrival", arrival).slot;
    delete arrival;
    --slot->held_arrivals;
    return WEFT_CODE_OK;
  });
}
