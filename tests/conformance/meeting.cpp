#include "tests/conformance/meeting.hpp"

namespace weft::conformance {

// Two buffers: a rank that has left a meeting may signal for the next one before all ranks have
// taken its signal for this one.
Meeting::Meeting(World& world, const std::string& name)
    : check_(world),
      silent_(world.expose({.name = name + ", silent", .dtype = DType::u8, .shape = {1}})),
      signal_(world.allocate(DType::i64, {1})) {
  const int size = world.size();
  const auto spec = [&](int distance) {
    return SlotSpec{.name = name + ", from " + std::to_string(distance) + " below",
                    .dtype = DType::i64,
                    .shape = {1},
                    .depth = 2};
  };
  for (int distance = 1; distance < size; distance *= 2)
    steps_.push_back({world.expose(spec(distance)), {}});
  int distance = 1;
  for (Step& step : steps_) {
    step.to = world.attach((world.rank() + distance) % size, spec(distance));
    distance *= 2;
  }
}

void Meeting::wait() {
  signal_.as<std::int64_t>()[0] = ++count_;
  for (Step& step : steps_) {
    check_.ok(step.to.put(signal_).wait(), "signal to the meeting");
    const auto arrival = check_.ok(step.from.wait(), "another rank did not come to the meeting");
    check_.equal(arrival.as<std::int64_t>()[0], count_, "the meeting's signal");
  }
}

void Meeting::pause(std::chrono::nanoseconds span) noexcept {
  (void)silent_.wait(Deadline::after(span));
}

}  // namespace weft::conformance
