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

/// A timeout of C++, told in the terms of this API: with this code and this hint.
weft_code remember_late(weft_code code, const weft::Status& status, const char* hint) {
  return remember(
      code, weft::altered(status, [&](weft::ErrorDetail& detail) { detail.hint = hint; }).text());
}

/// Waits for the put that an earlier call has left under way, if there is one.
weft::Status wait_for_put(weft_remote_slot& remote, weft::Deadline until) {
  auto status = remote.under_way.wait(until);
  if (status.code() != weft::Code::timeout && status.code() != weft::Code::forked)
    remote.under_way = {};
  return status;
}

weft_code remember_under_way(const weft::Status& status) {
  return remember_late(WEFT_CODE_UNDER_WAY, status,
                       "the tensor stays lent until weft_put_wait returns another code");
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
    auto& to = given("put", "remote", remote);
    const auto& from = given("put", "tensor", tensor).tensor;
    const auto until = deadline("put", timeout_seconds);
    const auto earlier = wait_for_put(to, until);
    if (earlier.code() == weft::Code::timeout)
      return remember_late(WEFT_CODE_TIMEOUT, earlier,
                           "that is the put before; nothing was sent of this one");
    if (!earlier.ok()) return remember(earlier);
    auto request = to.remote.put(from);
    auto status = request.wait(until);
    if (status.code() == weft::Code::timeout) {
      if (request.cancel().code() == weft::Code::cancelled)
        return remember_late(WEFT_CODE_TIMEOUT, status,
                             "is the owner at the same step? the put was withdrawn");
      // It has begun, or ended meanwhile.
      status = request.wait(weft::Deadline::after({}));
    }
    if (status.ok()) return WEFT_CODE_OK;
    if (status.code() != weft::Code::timeout) return remember(status);
    to.under_way = request;
    return remember_under_way(status);
  });
}

weft_code weft_put_wait(weft_remote_slot* remote, double timeout_seconds) {
  return guarded([&] {
    auto& to = in_rank("put_wait", "remote", remote);
    const auto status = wait_for_put(to, deadline("put_wait", timeout_seconds));
    if (status.ok()) return WEFT_CODE_OK;
    return status.code() == weft::Code::timeout ? remember_under_way(status) : remember(status);
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
