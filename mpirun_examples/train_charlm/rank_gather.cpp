#include "rank_gather.hpp"

#include <algorithm>

namespace charlm {

RankGather::RankGather(weft::World& world, const std::string& name, int ranks, std::size_t count)
    : count_(count) {
  const weft::Shape shape{static_cast<std::int64_t>(count)};
  const auto spec = [&](int rank) {
    return weft::SlotSpec{.name = name + "." + std::to_string(rank),
                          .dtype = weft::DType::f64,
                          .shape = shape,
                          .depth = 4};
  };
  if (world.rank() == 0) {
    gathered_.resize(count * static_cast<std::size_t>(ranks));
    for (int r = 1; r < ranks; ++r) slots_.push_back(world.expose(spec(r)));
  } else {
    outgoing_ = world.allocate(weft::DType::f64, shape);
    remote_ = world.attach(0, spec(world.rank()));
  }
}

weft::Status RankGather::put(std::span<const double> values) noexcept {
  if (outgoing_.empty()) {
    std::ranges::copy(values, gathered_.begin());
    return {};
  }
  std::ranges::copy(values, outgoing_.as<double>().begin());
  return remote_.put(outgoing_).wait();
}

weft::Result<std::span<const double>> RankGather::collect() noexcept {
  auto to = gathered_.begin();
  for (weft::Slot& slot : slots_) {
    const weft::Result<weft::Arrival> arrival = slot.wait();
    if (!arrival) return arrival.status();
    to += static_cast<std::ptrdiff_t>(count_);
    std::ranges::copy(arrival->as<double>(), to);
  }
  return std::span<const double>(gathered_);
}

}  // namespace charlm
