#include "pslib/async/gradients.hpp"

#include <fmt/format.h>

#include "base/fail.hpp"
#include "pslib/replication/replica_words.hpp"
#include "pslib/table/slot_words.hpp"

namespace weft::pslib {

void Gradients::attach(World& world, Deadline deadline) {
  const PublishedSpec expected = table_.gradients();
  for (std::size_t i = 0; i < workers_.size(); ++i)
    workers_[i].slot = world.attach_published(table_.roles.workers[i], expected, deadline);
  initial_.attach(world, table_, homes_, {}, deadline);
}

Status Gradients::take(std::size_t worker, Deadline deadline) noexcept {
  Worker& from = workers_[worker];
  if (worker == 0)
    if (Status status = initial_.take(deadline); !status) return status;
  auto arrival = from.slot.view(cut_.runs(), deadline);
  if (!arrival) return arrival.status();
  if (const std::uint64_t sequence = arrival->sequence(); sequence > ReplicaWords::kMostSequence)
    return refuse(Code::mismatch, [&] {
      return nonsense("take gradients", from.slot.owner(), from.slot.spec().name,
                      fmt::format("a push of number {}", sequence));
    });
  from.taken = arrival->sequence();
  if (worker == 0 && from.taken > 1) initial_.drop();
  from.base = load_word(cut_.words(arrival->tensor()), GradientWords::kBase);
  from.arrival = *std::move(arrival);
  return {};
}

void Gradients::release(std::size_t worker) noexcept {
  workers_[worker].arrival = {};
  if (worker == 0) initial_.release();
}

void Gradients::take_again(std::size_t worker) noexcept {
  Worker& from = workers_[worker];
  from.slot.see_again();
  if (worker == 0 && from.taken == 1) initial_.take_again();
}

}  // namespace weft::pslib
