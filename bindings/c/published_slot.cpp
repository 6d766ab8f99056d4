// Slots that their owner publishes, and their readers.
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings/c/arrival.hpp"
#include "bindings/c/sized.hpp"
#include "bindings/c/slot.hpp"
#include "bindings/c/tensor.hpp"

using namespace weft::c;

namespace {

weft::PublishedSpec spec_of(const char* operation, const weft_published_spec* given_spec) {
  const auto from = read_sized(operation, "spec", given_spec);
  weft::PublishedSpec spec;
  spec.name = text_of(operation, "spec->name", from.name);
  spec.dtype = checked_dtype(operation, from.dtype);
  spec.shape = shape_of(operation, from.dims, from.ndims);
  spec.depth = from.depth == 0 ? 1 : from.depth;
  spec.flow = checked_value(operation, "flow", from.flow, weft::Flow::unsafe_synchronous);
  if (from.place != nullptr) spec.memory = memory_in(operation, *from.place);
  return spec;
}

weft_slot_info info_of(const weft::PublishedSpec& spec, int owner) {
  weft::SlotSpec same;
  same.dtype = spec.dtype;
  same.shape = spec.shape;
  same.depth = spec.depth;
  same.flow = spec.flow;
  auto info = slot_info(same);
  info.name = spec.name.c_str();
  info.owner = owner;
  return info;
}

/// Runs without targets if `targets` is null.
std::vector<weft::SlotRun> runs_of(const char* operation, const int64_t* firsts,
                                   const int64_t* counts, void* const* targets, size_t runs) {
  const auto first = given(operation, "firsts", firsts, runs);
  const auto count = given(operation, "counts", counts, runs);
  std::vector<weft::SlotRun> list(runs);
  for (std::size_t i = 0; i < runs; ++i)
    list[i] = {first[i], count[i],
               targets == nullptr ? nullptr : static_cast<std::byte*>(targets[i])};
  return list;
}

}  // namespace

weft_code weft_published_slot_expose(weft_world* world, const weft_published_spec* spec,
                                     weft_published_slot** slot) {
  return guarded([&] {
    auto& owner = given("expose", "world", world);
    auto& out = given("expose", "slot", slot);
    out = new weft_published_slot{OpenIn(owner),
                                  owner.world.expose_published(spec_of("expose", spec))};
    return WEFT_CODE_OK;
  });
}

weft_code weft_published_slot_get_info(const weft_published_slot* slot, weft_slot_info* info) {
  return guarded([&] {
    const auto& from = in_rank("slot_info", "slot", slot);
    write_sized("slot_info", "info", info, info_of(from.slot.spec(), world_of(from).rank()));
    return WEFT_CODE_OK;
  });
}

weft_code weft_published_slot_next(weft_published_slot* slot, double timeout_seconds,
                                   weft_tensor** tensor) {
  return guarded([&] {
    auto& out = given("next", "tensor", tensor);
    auto& from = given("next", "slot", slot);
    // First, so that a failed allocation loses no buffer.
    auto handle = std::make_unique<weft_tensor>();
    auto result = from.slot.next(deadline("next", timeout_seconds));
    if (!result.ok()) return remember(result.status());
    handle->memory = memory_of(from.open.world(), *result);
    handle->tensor = std::move(*result);
    out = handle.release();
    return WEFT_CODE_OK;
  });
}

weft_code weft_published_slot_publish(weft_published_slot* slot) {
  return guarded([&] { return code_of(given("publish", "slot", slot).slot.publish()); });
}

weft_code weft_published_slot_readers(const weft_published_slot* slot, int* readers) {
  return guarded([&] {
    auto& out = given("readers", "readers", readers);
    out = in_rank("readers", "slot", slot).slot.readers();
    return WEFT_CODE_OK;
  });
}

weft_code weft_published_slot_also_needs(weft_published_slot* slot, const int* ranks, size_t count,
                                         weft_needed needed) {
  return guarded([&] {
    in_rank("also_needs", "slot", slot)
        .slot.also_needs(given("also_needs", "ranks", ranks, count), needed_of(needed));
    return WEFT_CODE_OK;
  });
}

weft_code weft_published_slot_close(weft_published_slot* slot) {
  return guarded([&] {
    delete &in_rank("published_slot_close", "slot", slot);
    return WEFT_CODE_OK;
  });
}

weft_code weft_published_reader_attach(weft_world* world, int owner,
                                       const weft_published_spec* spec, double timeout_seconds,
                                       weft_published_reader** reader) {
  return guarded([&] {
    auto& self = given("attach", "world", world);
    auto& out = given("attach", "reader", reader);
    const weft::PublishedSpec expected = spec_of("attach", spec);
    if (expected.memory.is_gpu())
      weft::throw_error(weft::Code::bad_argument, "attach", "spec->place names a GPU",
                        "a slot's memory is its owner's");
    out = new weft_published_reader{
        OpenIn(self),
        self.world.attach_published(owner, expected, deadline("attach", timeout_seconds))};
    return WEFT_CODE_OK;
  });
}

weft_code weft_published_reader_attach_by_name(weft_world* world, int owner, const char* name,
                                               double timeout_seconds,
                                               weft_published_reader** reader) {
  return guarded([&] {
    auto& self = given("attach", "world", world);
    auto& out = given("attach", "reader", reader);
    out = new weft_published_reader{
        OpenIn(self), self.world.attach_published(owner, text_of("attach", "name", name),
                                                  deadline("attach", timeout_seconds))};
    return WEFT_CODE_OK;
  });
}

weft_code weft_published_reader_get_info(const weft_published_reader* reader,
                                         weft_slot_info* info) {
  return guarded([&] {
    const auto& from = in_rank("slot_info", "reader", reader).reader;
    write_sized("slot_info", "info", info, info_of(from.spec(), from.owner()));
    return WEFT_CODE_OK;
  });
}

weft_code weft_published_reader_view(weft_published_reader* reader, double timeout_seconds,
                                     weft_arrival** arrival) {
  return guarded([&] {
    auto& out = given("view", "arrival", arrival);
    auto& from = given("view", "reader", reader);
    NewArrival held(from.open.world());
    return held.take(from.reader.view(deadline("view", timeout_seconds)), from.held_arrivals, out);
  });
}

weft_code weft_published_reader_view_runs(weft_published_reader* reader, const int64_t* firsts,
                                          const int64_t* counts, size_t runs,
                                          double timeout_seconds, weft_arrival** arrival) {
  return guarded([&] {
    auto& out = given("view", "arrival", arrival);
    auto& from = given("view", "reader", reader);
    const auto wanted = runs_of("view", firsts, counts, nullptr, runs);
    NewArrival held(from.open.world());
    return held.take(from.reader.view(wanted, deadline("view", timeout_seconds)),
                     from.held_arrivals, out);
  });
}

weft_code weft_published_reader_get(weft_published_reader* reader, const weft_tensor* into,
                                    double timeout_seconds) {
  return guarded([&] {
    auto& from = given("get", "reader", reader).reader;
    const auto& to = given("get", "into", into);
    check_writable("get", to);
    return code_of(from.get(to.tensor, deadline("get", timeout_seconds)));
  });
}

weft_code weft_published_reader_get_runs(weft_published_reader* reader, const int64_t* firsts,
                                         const int64_t* counts, void* const* targets, size_t runs,
                                         double timeout_seconds) {
  return guarded([&] {
    auto& from = given("get", "reader", reader).reader;
    const auto wanted =
        runs_of("get", firsts, counts, given("get", "targets", targets, runs).data(), runs);
    return code_of(
        from.get(std::span<const weft::SlotRun>(wanted), deadline("get", timeout_seconds)));
  });
}

weft_code weft_published_reader_ready(const weft_published_reader* reader, int* ready) {
  return guarded([&] {
    auto& out = given("reader_ready", "ready", ready);
    out = in_rank("reader_ready", "reader", reader).reader.ready() ? 1 : 0;
    return WEFT_CODE_OK;
  });
}

weft_code weft_published_reader_see_again(weft_published_reader* reader) {
  return guarded([&] {
    in_rank("see_again", "reader", reader).reader.see_again();
    return WEFT_CODE_OK;
  });
}

weft_code weft_published_reader_also_needs(weft_published_reader* reader, const int* ranks,
                                           size_t count, weft_needed needed) {
  return guarded([&] {
    in_rank("also_needs", "reader", reader)
        .reader.also_needs(given("also_needs", "ranks", ranks, count), needed_of(needed));
    return WEFT_CODE_OK;
  });
}

weft_code weft_published_reader_close(weft_published_reader* reader) {
  return guarded([&] {
    check_closed("published_reader_close",
                 in_rank("published_reader_close", "reader", reader).held_arrivals,
                 "arrivals of this reader");
    delete reader;
    return WEFT_CODE_OK;
  });
}
