// Arrivals: tensors that came into a slot, or that a reader views.
#include "bindings/c/arrival.hpp"

#include <memory>
#include <utility>

#include "bindings/c/tensor.hpp"

namespace weft::c {

NewArrival::NewArrival(weft_world& world) : handle_(new weft_arrival{OpenIn(world)}) {}

weft_code NewArrival::take(Result<Arrival> result, int& held, weft_arrival*& out) noexcept {
  if (!result.ok()) return remember(result.status());
  handle_->arrival = std::move(*result);
  handle_->held = &held;
  ++held;
  out = handle_.release();
  return WEFT_CODE_OK;
}

}  // namespace weft::c

using namespace weft::c;

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
    int* const held = in_rank("arrival_release", "arrival", arrival).held;
    delete arrival;
    --*held;
    return WEFT_CODE_OK;
  });
}

weft_code weft_arrival_release_on(weft_arrival* arrival, void* const* stream) {
  return guarded([&] {
    auto& held = in_rank("arrival_release", "arrival", arrival);
    if (const auto status = held.arrival.release(stream_in(stream)); !status.ok())
      return remember(status);
    int* const count = held.held;
    delete arrival;
    --*count;
    return WEFT_CODE_OK;
  });
}

weft_code weft_arrival_outcome(const weft_arrival* arrival, const uint32_t** outcome) {
  return guarded([&] {
    given("arrival_outcome", "outcome", outcome) =
        in_rank("arrival_outcome", "arrival", arrival).arrival.outcome();
    return WEFT_CODE_OK;
  });
}

weft_code weft_arrival_tensor(const weft_arrival* arrival, weft_tensor** tensor) {
  return guarded([&] {
    auto& out = given("arrival_tensor", "tensor", tensor);
    const auto& from = in_rank("arrival_tensor", "arrival", arrival);
    const weft::Tensor& shown = from.arrival.tensor();
    out = new_tensor(shown, memory_of(from.open.world(), shown), true);
    return WEFT_CODE_OK;
  });
}
