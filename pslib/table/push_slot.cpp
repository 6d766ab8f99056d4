#include "pslib/table/push_slot.hpp"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "base/fail.hpp"
#include "pslib/table/slot_words.hpp"

namespace weft::pslib {
namespace {

PublishedSpec placed(PublishedSpec spec, Memory memory) {
  spec.memory = memory;
  return spec;
}

/// The memory that a worker fills pushes in: compressed ones are made by the processor.
Memory push_memory(const Description& table) {
  return table.pushes.is_compressed() ? Memory::host() : table.options.memory;
}

}  // namespace

PushSlot::PushSlot(World& world, const Description& table, Deadline deadline)
    : world_(world),
      table_(table),
      slot_(world.expose_published(placed(table.gradients(), push_memory(table)))),
      buffer_(slot_.next().value()) {
  const Memory memory = table.options.memory;
  const Shape shape{table.layout.elements()};
  if (table.pushes.is_compressed()) {
    gradients_ = world.allocate(table.options.wire, shape, memory);
    compressor_ = std::make_unique<Compressor>(table.pushes, table.specs, table.table);
    if (table.roles.is_first_worker())
      initial_ = world.expose_published(placed(table.initial(), memory));
  } else {
    gradients_ = buffer_;
  }
  parameters_ =
      initial_ ? initial_->next().value() : world.allocate(table.options.wire, shape, memory);
  clear_all(deadline);
  if (memory.is_gpu()) make_copies();
}

void PushSlot::clear_all(Deadline deadline) {
  std::vector<Tensor> all{buffer_, parameters_};
  if (compressor_) all.push_back(gradients_);  // else they are the buffer
  for (const Tensor& tensor : all)
    if (tensor.memory().is_gpu())
      GpuCopy::of_zeros(world_, tensor).run("table", deadline).or_throw();
    else
      std::memset(tensor.data(), 0, tensor.bytes());
}

void PushSlot::make_copies() {
  const DType wire = table_.options.wire;
  const Shape shape{table_.layout.elements()};
  const auto host = [&](const Shape& of) {
    Tensor tensor = world_.allocate(wire, of);
    std::memset(tensor.data(), 0, tensor.bytes());
    return tensor;
  };
  gpu_ = std::make_unique<OnGpu>();
  gpu_->pulled = host(shape);
  gpu_->deliver.emplace(world_, gpu_->pulled, parameters_);
  gpu_->clear.emplace(GpuCopy::of_zeros(world_, gradients_.part(0, shape)));
  if (compressor_) {
    gpu_->gradients = host(shape);
    gpu_->bring.emplace(world_, gradients_, gpu_->gradients);
    return;
  }
  if (table_.roles.is_first_worker())
    gpu_->begin.emplace(world_, parameters_, gradients_.part(0, shape));
  if (!table_.is_asynchronous()) return;
  const std::int64_t gradients = shape.elements();
  gpu_->words = host({buffer_.shape().elements() - gradients});
  gpu_->mark.emplace(world_, gpu_->words, buffer_.part(gradients, gpu_->words.shape()));
}

Status PushSlot::clear_gradients(Deadline deadline) noexcept {
  if (gpu_) return named(gpu_->clear->run("initialize", deadline));
  std::memset(gradients_.data(), 0, parameters_.bytes());
  return {};
}

Status PushSlot::deliver(Deadline deadline) noexcept {
  if (!gpu_ || gpu_->has_delivered) return {};
  Status status = stage(*gpu_->deliver, "pull", deadline);
  gpu_->has_delivered = status.ok();
  return status;
}

Status PushSlot::reclaim(Deadline deadline) noexcept {
  Status status = slot_.next(deadline).status();
  if (status && gpu_) gpu_->has_delivered = false;
  return status;
}

Status PushSlot::fill_initial(Deadline deadline) noexcept {
  // Once that is published nothing fails: what follows is the processor's.
  if (initial_) return publish(*initial_, "the parameters", deadline);
  if (!table_.roles.is_first_worker()) return {};
  if (gpu_) {
    if (gpu_->has_begun) return {};
    Status status = named(gpu_->begin->run("initialize", deadline));
    gpu_->has_begun = status.ok();
    return status;
  }
  std::memcpy(gradients_.data(), parameters_.data(), parameters_.bytes());
  return {};
}

Status PushSlot::fill(Deadline deadline) noexcept {
  if (!compressor_) return {};
  if (gpu_)
    if (Status status = stage(*gpu_->bring, "push", deadline); !status) return status;
  return compressor_->compress(gpu_ ? gpu_->gradients : gradients_, buffer_.data());
}

Status PushSlot::set_word(std::size_t index, std::uint64_t word, Deadline deadline) noexcept {
  if (!gpu_ || !gpu_->mark) {
    store_word(words(), index, word);
    return {};
  }
  if (gpu_->has_marked) return {};
  // A push that is made again has the same word.
  if (!gpu_->mark->is_under_way()) store_word(gpu_->words.data(), index, word);
  Status status = stage(*gpu_->mark, "push", deadline);
  gpu_->has_marked = status.ok();
  return status;
}

Status PushSlot::publish(Deadline deadline) noexcept {
  Status status = publish(slot_, "the gradients", deadline);
  if (status && gpu_) gpu_->has_begun = gpu_->has_marked = false;
  return status;
}

Status PushSlot::publish(PublishedSlot& slot, const char* what, Deadline deadline) noexcept {
  Status status = slot.publish(deadline);
  const PublishedSpec& spec = slot.spec();
  if (spec.memory.is_host()) return status;
  if (status) {
    staged_.bytes += static_cast<std::uint64_t>(spec.shape.elements()) * size_of(spec.dtype);
    ++staged_.copies;
  }
  if (status.code() != Code::timeout) return status;
  return altered(std::move(status), [&](ErrorDetail& detail) {
    detail.message = fmt::format("{} has not copied {} to host memory", spec.memory.text(), what);
    detail.hint = "call it again: the copy goes on";
  });
}

Status PushSlot::named(Status status) const noexcept {
  if (status) return status;
  return altered(std::move(status), [&](ErrorDetail& detail) { detail.slot = slot_.spec().name; });
}

Status PushSlot::stage(GpuCopy& copy, const char* operation, Deadline deadline) noexcept {
  Status status = named(copy.run(operation, deadline));
  if (!status) return status;
  staged_.bytes += copy.bytes();
  ++staged_.copies;
  return status;
}

}  // namespace weft::pslib
