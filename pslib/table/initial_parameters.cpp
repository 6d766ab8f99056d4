#include "pslib/table/initial_parameters.hpp"

#include <algorithm>

namespace weft::pslib {

void InitialParameters::attach(World& world, const Description& table, std::span<const int> homes,
                               std::span<const int> needs, Deadline deadline) {
  if (!table.pushes.is_compressed()) return;
  slot_ = world.attach_published(table.roles.workers.front(), table.initial(), deadline);
  slot_->also_needs(needs);
  cut_.emplace(table.layout.elements(), size_of(table.options.wire));
  for (const ShardPiece& piece : table.pieces)
    if (std::ranges::find(homes, piece.server) != homes.end())
      cut_->add(table.layout.offset(piece.tensor) + piece.first, piece.count);
}

Status InitialParameters::take(Deadline deadline) noexcept {
  if (!slot_ || !is_due_) return {};
  auto arrival = slot_->view(cut_->runs(), deadline);
  if (!arrival) return arrival.status();
  arrival_ = *std::move(arrival);
  is_due_ = false;
  return {};
}

const std::byte* InitialParameters::data(std::int64_t first) const noexcept {
  const Tensor& viewed = arrival_.tensor();
  return viewed.data() +
         static_cast<std::size_t>(cut_->place(viewed, first)) * size_of(viewed.dtype());
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
