#include "pslib/shard.hpp"

#include <algorithm>

#include "pslib/refusal.hpp"

namespace weft::pslib {
namespace {

const float* floats(const Arrival& arrival) noexcept {
  return reinterpret_cast<const float*>(arrival.tensor().data());
}

}  // namespace

Shard::Shard(World& world, const std::string& slot, const Roles& roles, const Layout& layout,
             std::span<const Piece> pieces, const Optimizer& optimizer)
    : region_(world.expose(published(slot, region_elements(pieces, roles.rank)))),
      workers_(roles.workers.size()),
      sources_(roles.workers.size()),
      updater_(optimizer, region_elements(pieces, roles.rank)) {
  region_.also_needs(roles.others());
  const Tensor empty = region_.next().value();
  std::ranges::fill(empty.as<float>(), 0.0F);
  region_.publish().or_throw();
  for (const Piece& piece : pieces)
    if (piece.server == roles.rank)
      runs_.push_back({layout.offset(piece.tensor) + piece.first, piece.shard_offset, piece.count});
}

void Shard::attach(World& world, const Roles& roles, const SlotSpec& gradients,
                   std::span<const int> needs, Deadline deadline) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].gradients = world.attach(roles.workers[i], gradients, deadline);
    workers_[i].gradients.also_needs(needs);
  }
}

Status Shard::round(Deadline deadline) noexcept {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].arrival) continue;
    if (Status status = take(i, deadline); !status) return status;
  }
  return finish();
}

Status Shard::take(std::size_t worker, Deadline deadline) noexcept {
  Worker& from = workers_[worker];
  auto arrival = from.gradients.view(deadline);
  if (!arrival) return arrival.status();
  const std::uint64_t expected = rounds_ + 1;
  if (arrival->sequence() != expected)
    return refuse(Code::flow_overrun, [&] {
      ErrorDetail detail;
      detail.code = Code::flow_overrun;
      detail.operation = "take gradients";
      detail.message = "a worker's gradients overtook the step that this shard is at";
      detail.hint = "one Table per worker must push, and only after the last pull has returned";
      detail.peer = from.gradients.owner();
      detail.slot = from.gradients.spec().name;
      detail.sequence_expected = expected;
      detail.sequence_seen = arrival->sequence();
      return detail;
    });
  from.arrival = *std::move(arrival);
  ++taken_;
  return {};
}

Status Shard::finish() noexcept {
  auto region = region_.next();
  if (!region) return region.status();
  auto* const parameters = reinterpret_cast<float*>(region->data());
  if (rounds_ == 0)
    start_from(floats(workers_.front().arrival), parameters);
  else
    update(parameters);
  // The workers write their next gradients as soon as they see the new parameters.
  for (Worker& worker : workers_) worker.arrival = {};
  taken_ = 0;
  ++rounds_;
  return region_.publish();
}

void Shard::start_from(const float* initial, float* region) const noexcept {
  for (const Run& run : runs_) std::copy_n(initial + run.from, run.count, region + run.to);
}

void Shard::update(float* region) noexcept {
  updater_.begin_step();
  for (const Run& run : runs_) {
    for (std::size_t i = 0; i < workers_.size(); ++i)
      sources_[i] = floats(workers_[i].arrival) + run.from;
    updater_.apply(region + run.to, run.to, sources_, run.count);
  }
}

}  // namespace weft::pslib
