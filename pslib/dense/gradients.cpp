#include "pslib/dense/gradients.hpp"

#include "pslib/dense/relaxed_words.hpp"

namespace weft::pslib {

void Gradients::attach(World& world, Deadline deadline) {
  const SlotSpec expected = table_.gradients();
  for (std::size_t i = 0; i < workers_.size(); ++i)
    workers_[i].slot = world.attach(table_.roles.workers[i], expected, deadline);
  initial_.attach(world, table_, {}, deadline);
}

Status Gradients::take(std::size_t worker, Deadline deadline) noexcept {
  Worker& from = workers_[worker];
  if (worker == 0 && from.taken == 0)
    if (Status status = initial_.take(deadline); !status) return status;
  auto arrival = from.slot.view(deadline);
  if (!arrival) return arrival.status();
  from.taken = arrival->sequence();
  from.arrival = *std::move(arrival);
  return {};
}

void Gradients::let_go(std::size_t worker) noexcept {
  workers_[worker].arrival = {};
  if (worker == 0) initial_.drop();
}

std::uint64_t Gradients::base(std::size_t worker) const noexcept {
  return load_word(data(worker) + table_.pushes.bytes(), GradientWords::kBase);
}

}  // namespace weft::pslib
