#include "runtime/dataflow/execute/tensor_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/fail.hpp"

namespace weft::dataflow {
namespace {

constexpr std::align_val_t kAlignment{64};

TracingOptions options_for(SentMemory sent, std::size_t nodes) {
  constexpr std::size_t kMostSites = 1 << 20;
  const bool learns = sent == SentMemory::arena || sent == SentMemory::traced;
  return {.mode = learns                           ? TracingMode::sites
                  : sent == SentMemory::registered ? TracingMode::cut_edges
                                                   : TracingMode::off,
          .max_sites = nodes + kMostSites};
}

}  // namespace

PlainStorage::PlainStorage(std::size_t bytes)
    : Storage(static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), kAlignment)),
              bytes, nullptr) {}

PlainStorage::~PlainStorage() { ::operator delete(data(), kAlignment); }

std::size_t checked_bytes(DType dtype, const Shape& shape) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 52;
  const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  if (bytes > kMost)
    throw_error(Code::exhausted, "allocate",
                fmt::format("{}{} is more than any machine addresses", name(dtype), shape.text()),
                "allocate a smaller tensor");
  return bytes;
}

Tensor plain_tensor(DType dtype, const Shape& shape) {
  const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  return {std::make_shared<PlainStorage>(bytes), 0, dtype, shape};
}

Tensor adopted_tensor(World& world, DType dtype, const Shape& shape) {
  const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  const auto storage = std::make_shared<PlainStorage>(bytes);
  return world.adopt(std::shared_ptr<void>(storage, storage->data()), dtype, shape);
}

void copy_elements(const Tensor& tensor, std::byte* to) noexcept {
  for_each_run(tensor, [&to](const std::byte* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    to += bytes;
  });
}

Tensor copy_of(const Tensor& tensor) {
  const Tensor copy = plain_tensor(tensor.dtype(), tensor.shape());
  copy_elements(tensor, copy.data());
  return copy;
}

TensorMemory::TensorMemory(World& world, const std::vector<Instruction>& program,
                           const Publications& publications, SentMemory sent)
    : world_(world),
      program_(program),
      publications_(publications),
      sent_(sent),
      sites_(std::make_shared<detail::TracingState>(options_for(sent, program.size()))),
      kept_(program.size()) {
  for (const Instruction& one : program) nodes_.push_back(&sites_->node(one.node->name));
}

Tensor TensorMemory::get(NodeId node, std::size_t output, DType dtype, const Shape& shape) {
  const Instruction& one = program_[static_cast<std::size_t>(node)];
  if (const Home& home = one.homes[output]; home.kind == Home::Kind::variable) {
    const Tensor memory = variable(home.variable);
    return memory.shape() == shape ? memory : memory.part(0, shape);
  }
  if (one.homes[output].kind == Home::Kind::published)
    return publications_.find({node, static_cast<std::int32_t>(output)})
        ->buffer()
        .value()
        .part(0, shape);
  if (!one.node->outputs[output].shape.known()) return make(node, output, dtype, shape);
  std::vector<Tensor>& kept = kept_[static_cast<std::size_t>(node)];
  kept.resize(one.node->outputs.size());
  // Memory that turned out to be sent moves once, between two steps.
  const bool must_move = kept[output].storage() != nullptr && is_site(one) &&
                         kept[output].arena() == nullptr &&
                         sites_->memory_of(site(node, static_cast<std::uint32_t>(output))) ==
                             detail::SiteMemory::arena;
  if (kept[output].storage() == nullptr || must_move)
    kept[output] = make(node, output, dtype, shape);
  return kept[output];
}

Tensor TensorMemory::make(NodeId node, std::size_t output, DType dtype, const Shape& shape) {
  const Instruction& one = program_[static_cast<std::size_t>(node)];
  if (is_site(one))
    return allocate_at(site(node, static_cast<std::uint32_t>(output)), dtype, shape);
  if (one.homes[output].kind != Home::Kind::arena) return plain_tensor(dtype, shape);
  if (sent_ != SentMemory::registered) return world_.allocate(dtype, shape);
  Tensor tensor = adopted_tensor(world_, dtype, shape);
  sites_->count_allocation(site(node, static_cast<std::uint32_t>(output)),
                           detail::SiteMemory::registered_alone);
  return tensor;
}

Tensor TensorMemory::allocate(NodeId node, std::uint32_t allocation, DType dtype,
                              const Shape& shape) {
  const Node& its = *program_[static_cast<std::size_t>(node)].node;
  // Where outputs are sites, they have the first numbers.
  const std::size_t before = sent_ == SentMemory::arena ? 0 : its.outputs.size();
  return allocate_at(site(node, static_cast<std::uint32_t>(before) + allocation), dtype, shape);
}

Tensor TensorMemory::allocate_at(detail::Site& site, DType dtype, const Shape& shape) {
  const detail::SiteMemory memory = sites_->memory_of(site);
  const std::size_t bytes = checked_bytes(dtype, shape);
  Tensor tensor = memory == detail::SiteMemory::arena
                      ? world_.allocate(dtype, shape)
                      : sites_->plain_tensor(site, bytes, dtype, shape);
  sites_->count_allocation(site, memory);
  return tensor;
}

void TensorMemory::note_sent(const Tensor& tensor) noexcept {
  sites_->count_send();
  detail::Site* const site = sites_->find_site(tensor);
  if (site == nullptr) return;
  sites_->note_sent(*site);
  sites_->count_copy(site, tensor.bytes());  // by the put
}

TracingReport TensorMemory::sites() const {
  TracingReport report = sites_->report();
  report.rank = world_.rank();
  return report;
}

Tensor TensorMemory::variable(NodeId node) {
  std::vector<Tensor>& kept = kept_[static_cast<std::size_t>(node)];
  if (kept.empty()) {
    const TensorType& type = program_[static_cast<std::size_t>(node)].node->outputs[0];
    const Tensor tensor = get(node, 0, type.dtype, type.shape.shape());
    if (tensor.bytes() > 0) std::memset(tensor.data(), 0, tensor.bytes());
    kept = {tensor};
  }
  return kept[0];
}

void TensorMemory::bind(NodeId node, const Tensor& memory) {
  kept_[static_cast<std::size_t>(node)] = {memory};
}

}  // namespace weft::dataflow
