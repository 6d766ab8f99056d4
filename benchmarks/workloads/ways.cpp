#include "benchmarks/workloads/ways.hpp"

namespace weft::bench {
namespace {

Shape shape_of(std::size_t bytes) { return {static_cast<std::int64_t>(bytes)}; }

PublishedSpec published_spec(const Stream& stream, std::size_t tensor) {
  return {.name = stream.name + "." + std::to_string(tensor),
          .dtype = DType::u8,
          .shape = shape_of(stream.size)};
}

std::vector<PublishedReader> attach_all(World& world, const Stream& stream) {
  std::vector<PublishedReader> remotes;
  for (std::size_t i = 0; i < stream.tensors; ++i)
    remotes.push_back(world.attach_published(0, published_spec(stream, i)));
  return remotes;
}

}  // namespace

std::vector<Tensor> allocate_tensors(World& world, const Stream& stream) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < stream.tensors; ++i)
    tensors.push_back(world.allocate(DType::u8, shape_of(stream.size)));
  return tensors;
}

Put::Put(World& world, const SlotSpec& spec, std::vector<Tensor> sources)
    : remote_(world.attach(1, spec)), sources_(std::move(sources)) {}

void Put::move(std::size_t i, std::uint64_t) { remote_.put(sources_[i]).wait().or_throw(); }

const std::byte* Taken::take(std::size_t i, std::uint64_t) {
  arrivals_[i] = slot_.wait().value();
  return arrivals_[i].tensor().data();
}

Published::Published(World& world, const Stream& stream) {
  for (std::size_t i = 0; i < stream.tensors; ++i)
    slots_.push_back(world.expose_published(published_spec(stream, i)));
}

std::byte* Published::source(std::size_t i) { return slots_[i].next().value().data(); }

void Published::move(std::size_t i, std::uint64_t) { slots_[i].publish().or_throw(); }

Got::Got(World& world, const Stream& stream, std::vector<Tensor> into)
    : remotes_(attach_all(world, stream)), into_(std::move(into)) {}

const std::byte* Got::take(std::size_t i, std::uint64_t) {
  remotes_[i].get(into_[i]).or_throw();
  return into_[i].data();
}

Viewed::Viewed(World& world, const Stream& stream)
    : remotes_(attach_all(world, stream)), views_(stream.tensors) {}

const std::byte* Viewed::take(std::size_t i, std::uint64_t) {
  views_[i] = remotes_[i].view().value();
  return views_[i].tensor().data();
}

void BareCopyOut::move(std::size_t i, std::uint64_t stamp) {
  const Tensor& source = sources_[i];
  const std::size_t place = (variant_ - kLimit) * sources_.size() + i;
  limit_copy(variant_, bare_.data() + place * source.bytes(), source.data(), source.bytes());
  raise_to(bare_.flags().announced, stamp);
}

void BareTold::move(std::size_t, std::uint64_t stamp) { raise_to(bare_.flags().announced, stamp); }

const std::byte* BareSeen::take(std::size_t i, std::uint64_t stamp) {
  await(bare_.their_flags().announced, stamp, bare_.idle());
  return bare_.their_data() + (first_ + i) * size_;
}

const std::byte* BareCopyIn::take(std::size_t i, std::uint64_t stamp) {
  limit_copy(variant_, into_[i].data(), seen_.take(i, stamp), into_[i].bytes());
  return into_[i].data();
}

}  // namespace weft::bench
