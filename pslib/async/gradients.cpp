#include "pslib/async/gradients.hpp"

#include <fmt/format.h>

#include <algorithm>

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

void Gradients::hold(std::vector<int> homes) {
  if (part_ && part_->homes == homes) return;
  PushCut cut = table_.cut(homes);
  part_ = std::make_shared<const Part>(Part{std::move(homes), std::move(cut)});
}

bool Gradients::has(std::size_t worker, int home) const noexcept {
  const Worker& from = workers_[worker];
  if (!has(worker)) return false;
  return from.part->cut.is_whole(from.arrival.tensor()) ||
         std::ranges::find(from.part->homes, home) != from.part->homes.end();
}

bool Gradients::is_to_come(std::size_t worker, std::uint64_t sequence) const noexcept {
  const Worker& from = workers_[worker];
  return !from.is_gone && (from.taken < sequence || (from.taken == sequence && from.is_due_again));
}

Status Gradients::take(std::size_t worker, Deadline deadline) noexcept {
  Worker& from = workers_[worker];
  if (worker == 0)
    if (Status status = initial_.take(deadline); !status) return status;
  auto arrival = from.slot.view(part_->cut.runs(), deadline);
  if (!arrival) return arrival.status();
  if (const std::uint64_t sequence = arrival->sequence(); sequence > ReplicaWords::kMostSequence)
    return refuse(Code::mismatch, [&] {
      return nonsense("take gradients", from.slot.owner(), from.slot.spec().name,
                      fmt::format("a push of number {}", sequence));
    });
  from.taken = arrival->sequence();
  if (worker == 0 && from.taken > 1) initial_.drop();
  from.base = load_word(part_->cut.words(arrival->tensor()), GradientWords::kBase);
  from.arrival = *std::move(arrival);
  from.part = part_;
  from.is_due_again = false;
  return {};
}

void Gradients::release(std::size_t worker) noexcept {
  workers_[worker].arrival = {};
  if (worker == 0) initial_.release();
}

void Gradients::take_again(std::size_t worker) noexcept {
  Worker& from = workers_[worker];
  from.slot.see_again();
  from.is_due_again = true;
  if (worker == 0 && from.taken == 1 && !initial_.has()) initial_.take_again();
}

}  // namespace weft::pslib
