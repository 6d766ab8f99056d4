#include "pslib/dense/relaxed_shard.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/kernels/combine.hpp"
#include "pslib/dense/relaxed_words.hpp"
#include "pslib/refusal.hpp"

namespace weft::pslib {

RelaxedShard::RelaxedShard(World& world, const Description& table)
    : table_(table),
      region_(world.expose(table.region(table.roles.rank))),
      state_(world.expose(table.state())),
      header_(table.region_words()),
      workers_(table.roles.workers.size()),
      updater_(table.options, table.specs.size(), region_elements(table.pieces, table.roles.rank),
               workers_.size()) {
  contributors_.reserve(workers_.size());
  sources_.reserve(workers_.size());
  if (table.options.wire != DType::f32)
    master_.resize(static_cast<std::size_t>(region_elements(table.pieces, table.roles.rank)));
  for (const Piece& piece : table.pieces)
    if (piece.server == table.roles.rank)
      parts_.push_back({{piece.tensor, piece.shard_offset, piece.count},
                        table.layout.offset(piece.tensor) + piece.first});
}

void RelaxedShard::attach(World& world, Deadline deadline) {
  const SlotSpec expected = table_.gradients();
  for (std::size_t i = 0; i < workers_.size(); ++i)
    workers_[i].gradients = world.attach(table_.roles.workers[i], expected, deadline);
}

Status RelaxedShard::take(std::size_t worker, Deadline deadline) noexcept {
  Worker& from = workers_[worker];
  auto arrival = from.gradients.view(deadline);
  if (!arrival) return arrival.status();
  from.taken = arrival->sequence();
  from.arrival = *std::move(arrival);
  return {};
}

Status RelaxedShard::drop(std::size_t worker) noexcept {
  workers_[worker].is_gone = true;
  if (!has_parameters_)
    return refuse(Code::closed, [&] {
      ErrorDetail detail;
      detail.code = Code::closed;
      detail.operation = "serve";
      detail.message = "a worker was lost before the table had its parameters";
      detail.hint = "let every worker call initialize()";
      detail.peer = table_.roles.workers[worker];
      return detail;
    });
  // It holds nobody back any more.
  if (Status status = advance(); !status) return status;
  return publish_state();
}

std::size_t RelaxedShard::quorum() const noexcept {
  const Consistency& consistency = table_.options.consistency;
  if (!has_parameters_) return workers_.size();
  if (consistency.kind != Consistency::Kind::k_of_n) return 1;
  const auto live = std::ranges::count_if(
      workers_, [](const Worker& worker) { return !worker.is_gone || worker.arrival; });
  return std::min(static_cast<std::size_t>(consistency.k), static_cast<std::size_t>(live));
}

std::uint64_t RelaxedShard::base_of(const Worker& worker) const noexcept {
  const std::size_t bytes =
      static_cast<std::size_t>(table_.layout.elements()) * size_of(table_.options.wire);
  return load_word(worker.arrival.tensor().data() + bytes, GradientWords::kBase);
}

// Computed for a step that has been made without it.
bool RelaxedShard::is_late(const Worker& worker) const noexcept {
  return has_parameters_ && table_.options.consistency.kind == Consistency::Kind::k_of_n &&
         base_of(worker) < version_;
}

// The gradients of the next update: late ones are dropped where the table wants it, and done with.
void RelaxedShard::gather() noexcept {
  contributors_.clear();
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    if (!worker.arrival) continue;
    if (is_late(worker) && table_.options.consistency.late == Consistency::Late::dropped) {
      ++statistics_.dropped;
      worker.done = worker.taken;
      worker.arrival = {};
      continue;
    }
    contributors_.push_back(i);
  }
}

Status RelaxedShard::advance() noexcept {
  const std::uint64_t dropped = statistics_.dropped;
  gather();
  if (!contributors_.empty() && contributors_.size() >= quorum()) return update();
  return statistics_.dropped > dropped ? publish_state() : Status{};
}

void RelaxedShard::count_staleness() noexcept {
  for (const std::size_t i : contributors_) {
    const Worker& worker = workers_[i];
    const std::uint64_t staleness = version_ - std::min(base_of(worker), version_);
    ++statistics_.staleness[std::min<std::size_t>(staleness, TableStatistics::kMostStaleness)];
    ++(is_late(worker) ? statistics_.folded : statistics_.applied);
  }
}

Status RelaxedShard::update() noexcept {
  bool is_new = true;
  if (has_parameters_) {
    count_staleness();
    updater_.begin(contributors_.size());
    is_new = updater_.due();
  }
  if (is_new) {
    auto buffer = region_.next();
    if (!buffer) return buffer.status();
    if (Status status = publish_region(*buffer); !status) return status;
  } else {
    for (const Part& part : parts_) updater_.keep(part.run, sources(part));
  }
  for (const std::size_t i : contributors_) {
    workers_[i].done = workers_[i].taken;
    workers_[i].arrival = {};
  }
  return publish_state();
}

Status RelaxedShard::publish_region(const Tensor& buffer) noexcept {
  const DType wire = table_.options.wire;
  const std::size_t skipped = static_cast<std::size_t>(header_) * size_of(wire);
  std::byte* const region = buffer.data() + skipped;
  if (!has_parameters_) {
    start(region);
  } else {
    float* const to = master_.empty() ? reinterpret_cast<float*>(region) : master_.data();
    const float* const from =
        master_.empty() ? reinterpret_cast<const float*>(newest_.data() + skipped) : master_.data();
    if (updater_.measures())
      for (const Part& part : parts_) updater_.measure(part.run, from, sources(part));
    for (const Part& part : parts_) updater_.apply(part.run, from, to, sources(part));
    ++version_;
  }
  if (!master_.empty()) weft::kernels::narrow(region, wire, master_.data(), master_.size());
  store_word(buffer.data(), RegionWords::kVersion, version_);
  std::memset(buffer.data() + RegionWords::kMask * sizeof(std::uint64_t), 0,
              (RegionWords::count(workers_.size()) - RegionWords::kMask) * sizeof(std::uint64_t));
  for (const std::size_t i : contributors_) {
    const std::size_t word = RegionWords::kMask + i / 64;
    store_word(buffer.data(), word, load_word(buffer.data(), word) | std::uint64_t{1} << (i % 64));
  }
  has_parameters_ = true;
  newest_ = buffer;
  return region_.publish();
}

void RelaxedShard::start(std::byte* region) noexcept {
  const DType wire = table_.options.wire;
  for (const Part& part : parts_) {
    const std::byte* const from = sources(part).front();
    const auto count = static_cast<std::size_t>(part.run.count);
    if (wire == DType::f32)
      std::memcpy(reinterpret_cast<float*>(region) + part.run.offset, from, count * sizeof(float));
    else
      weft::kernels::widen(master_.data() + part.run.offset, from, wire, count);
  }
}

Sources RelaxedShard::sources(const Part& part) noexcept {
  const std::size_t skipped = static_cast<std::size_t>(part.from) * size_of(table_.options.wire);
  sources_.clear();
  for (const std::size_t i : contributors_)
    sources_.push_back(workers_[i].arrival.tensor().data() + skipped);
  return sources_;
}

// The slowest worker that is still there, and the bound.
std::uint64_t RelaxedShard::permit() const noexcept {
  constexpr auto kAny = std::numeric_limits<std::uint64_t>::max();
  const Consistency& consistency = table_.options.consistency;
  if (consistency.kind != Consistency::Kind::ssp) return kAny;
  std::uint64_t slowest = kAny - consistency.staleness;
  for (const Worker& worker : workers_)
    if (!worker.is_gone) slowest = std::min(slowest, worker.done);
  return slowest + consistency.staleness;
}

Status RelaxedShard::publish_state() noexcept {
  auto buffer = state_.next();
  if (!buffer) return buffer.status();
  store_word(buffer->data(), StateWords::kVersion, version_);
  store_word(buffer->data(), StateWords::kPermit, permit());
  for (std::size_t i = 0; i < workers_.size(); ++i)
    store_word(buffer->data(), StateWords::kDone + i, workers_[i].done);
  return state_.publish();
}

}  // namespace weft::pslib
