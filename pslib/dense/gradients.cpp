#include "pslib/dense/gradients.hpp"

#include "pslib/dense/relaxed_words.hpp"

namespace weft::pslib {

void Gradients::attach(World& world, Deadline deadline) {
  const SlotSpec expected = table_.gradients();
  for (std::size_t i = 0; i < workers_.size(); ++i)
    workers_[i].slot = world.attach(table_.roles.workers[i], expected, deadline);
}

Status Gradients::take(std::size_t worker, Deadline deadline) noexcept {
  Worker& from = workers_[worker];
  auto arrival = from.slot.view(deadline);
  if (!arrival) return arrival.status();
  from.taken = arrival->sequence();
  from.arrival = *std::move(arrival);
  return {};
}

std::uint64_t Gradients::base(std::size_t worker) const noexcept {
  const std::size_t bytes =
      static_cast<std::size_t>(table_.layout.elements()) * size_of(table_.options.wire);
  return load_word(data(worker) + bytes, GradientWords::kBase);
}

}  // namespace weft::pslib
