#include "pslib/table/push_slot.hpp"

#include <cstring>

namespace weft::pslib {

PushSlot::PushSlot(World& world, const Description& table)
    : table_(table),
      slot_(world.expose_published(table.gradients())),
      buffer_(slot_.next().value()) {
  std::memset(buffer_.data(), 0, buffer_.bytes());
  const Shape shape{table.layout.elements()};
  if (table.pushes.is_compressed()) {
    gradients_ = world.allocate(table.options.wire, shape);
    compressor_ = std::make_unique<Compressor>(table.pushes, table.specs, table.table);
    if (table.roles.is_first_worker()) initial_ = world.expose_published(table.initial());
  } else {
    gradients_ = buffer_;
  }
  parameters_ = initial_ ? initial_->next().value() : world.allocate(table.options.wire, shape);
  std::memset(parameters_.data(), 0, parameters_.bytes());
  clear_gradients();
}

void PushSlot::clear_gradients() noexcept {
  std::memset(gradients_.data(), 0, parameters_.bytes());
}

Status PushSlot::fill_initial() noexcept {
  if (initial_) return initial_->publish();
  if (table_.roles.is_first_worker())
    std::memcpy(gradients_.data(), parameters_.data(), parameters_.bytes());
  return {};
}

Status PushSlot::fill() noexcept {
  return compressor_ ? compressor_->compress(gradients_, buffer_.data()) : Status{};
}

}  // namespace weft::pslib
