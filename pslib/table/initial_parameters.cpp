#include "pslib/table/initial_parameters.hpp"

namespace weft::pslib {

void InitialParameters::attach(World& world, const Description& table, std::span<const int> needs,
                               Deadline deadline) {
  if (!table.pushes.is_compressed()) return;
  slot_ = world.attach_published(table.roles.workers.front(), table.initial(), deadline);
  slot_->also_needs(needs);
}

Status InitialParameters::take(Deadline deadline) noexcept {
  if (!slot_ || !is_due_) return {};
  auto arrival = slot_->view(deadline);
  if (!arrival) return arrival.status();
  arrival_ = *std::move(arrival);
  is_due_ = false;
  return {};
}

void InitialParameters::take_again() noexcept {
  if (!slot_) return;
  slot_->see_again();
  is_due_ = true;
}

void InitialParameters::drop() noexcept {
  arrival_ = {};
  slot_.reset();
}

}  // namespace weft::pslib
