#include "pslib/async/async_shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/fail.hpp"
#include "base/kernels/combine.hpp"
#include "pslib/table/slot_words.hpp"

namespace weft::pslib {

AsyncShard::AsyncShard(World& world, const Description& table, std::size_t shard)
    : table_(table),
      home_(table.homes[shard]),
      region_(world.expose_published(table.region(home_))),
      header_(table.region_words()),
      done_(table.roles.workers.size()),
      mask_(mask_words()),
      updater_(table.options, table.specs.size(), region_elements(table.pieces, home_),
               done_.size(), table.pushes.is_compressed()) {
  contributors_.reserve(done_.size());
  sources_.reserve(done_.size());
  if (table.options.wire != DType::f32) master_.resize(elements());
  for (const ShardPiece& piece : table.pieces)
    if (piece.server == home_)
      runs_.push_back({piece.tensor, piece.shard_offset, piece.count, piece.first});
}

std::size_t AsyncShard::elements() const noexcept {
  return static_cast<std::size_t>(region_.spec().shape.elements() - header_);
}

std::size_t AsyncShard::mask_words() const noexcept {
  return RegionWords::count(done_.size()) - RegionWords::kMask;
}

std::size_t AsyncShard::quorum(const Gradients& gradients) const noexcept {
  const Consistency& consistency = table_.options.consistency;
  if (!has_parameters_ || consistency.kind == Consistency::Kind::bsp) return gradients.size();
  if (consistency.kind != Consistency::Kind::k_of_n) return 1;
  std::size_t live = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    live += !gradients.is_gone(i) || (gradients.has(i, home_) && gradients.taken(i) > done_[i]);
  return std::min<std::size_t>(consistency.k, live);
}

// True if the push was computed for a step that was made without it.
bool AsyncShard::is_late(std::size_t worker, const Gradients& gradients) const noexcept {
  return has_parameters_ && table_.options.consistency.kind == Consistency::Kind::k_of_n &&
         gradients.base(worker) < version_;
}

bool AsyncShard::takes_one() const noexcept {
  const auto kind = table_.options.consistency.kind;
  return has_parameters_ && (kind == Consistency::Kind::ssp || kind == Consistency::Kind::async);
}

void AsyncShard::keep_slowest(std::vector<RecordedPush>& pushes) const {
  if (pushes.size() < 2) return;
  pushes.front() = *std::ranges::min_element(
      pushes, {}, [this](const RecordedPush& push) { return done_[push.worker]; });
  pushes.resize(1);
}

std::vector<RecordedPush> AsyncShard::next_record(const Gradients& gradients) const {
  std::vector<RecordedPush> pushes;
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients.has(i, home_) || gradients.taken(i) <= done_[i]) continue;
    const bool is_dropped =
        table_.options.consistency.late == Consistency::Late::dropped && is_late(i, gradients);
    pushes.push_back({i, gradients.taken(i), is_dropped});
    dropped += is_dropped;
  }
  if (takes_one()) keep_slowest(pushes);
  const std::size_t contributors = pushes.size() - dropped;
  if (contributors > 0 && contributors >= quorum(gradients)) return pushes;
  std::erase_if(pushes, [](const RecordedPush& push) { return !push.is_dropped; });
  return pushes;
}

Status AsyncShard::apply(std::span<const RecordedPush> pushes,
                         const Gradients& gradients) noexcept {
  contributors_.clear();
  for (const RecordedPush& push : pushes)
    if (!push.is_dropped) contributors_.push_back(push.worker);
  if (!contributors_.empty())
    if (Status status = update(gradients); !status) return status;
  for (const RecordedPush& push : pushes) {
    done_[push.worker] = push.sequence;
    statistics_.dropped += push.is_dropped;
  }
  return {};
}

void AsyncShard::count(const Gradients& gradients) noexcept {
  for (const std::size_t i : contributors_) {
    const std::uint64_t staleness = version_ - std::min(gradients.base(i), version_);
    ++statistics_.staleness[std::min<std::size_t>(staleness, TableStatistics::kMostStaleness)];
    ++(is_late(i, gradients) ? statistics_.folded : statistics_.applied);
  }
}

Status AsyncShard::update(const Gradients& gradients) noexcept {
  if (!has_parameters_) return make_version(gradients);
  count(gradients);
  updater_.begin(contributors_.size());
  if (updater_.due()) return make_version(gradients);
  for (const Run& run : runs_) updater_.keep(run, sources(run, gradients));
  return {};
}

Status AsyncShard::make_version(const Gradients& gradients) noexcept {
  if (Status status = publish(); !status) return status;  // one may still be unpublished
  auto buffer = region_.next(until_);
  if (!buffer) return buffer.status();
  float* const to = master(*buffer);
  if (!has_parameters_) {
    if (Status status = start(to, gradients); !status) return status;
    has_parameters_ = true;
  } else {
    const float* const from = master(newest_);
    if (updater_.measures())
      for (const Run& run : runs_) updater_.measure(run, from, sources(run, gradients));
    updater_.settle();
    for (const Run& run : runs_) updater_.apply(run, from, to, sources(run, gradients));
    statistics_.skipped += updater_.skips() ? 1 : 0;
    ++version_;
  }
  std::ranges::fill(mask_, 0);
  for (const std::size_t i : contributors_) mask_[i / 64] |= std::uint64_t{1} << (i % 64);
  finish(*buffer);
  return {};
}

// Writes the words before the values, and converts the values to the wire type.
void AsyncShard::finish(const Tensor& buffer) noexcept {
  const DType wire = table_.options.wire;
  if (!master_.empty())
    weft::kernels::narrow(buffer.data() + static_cast<std::size_t>(header_) * size_of(wire), wire,
                          master_.data(), master_.size());
  store_word(buffer.data(), RegionWords::kVersion, version_);
  for (std::size_t i = 0; i < mask_.size(); ++i)
    store_word(buffer.data(), RegionWords::kMask + i, mask_[i]);
  newest_ = buffer;
  is_published_ = false;
}

Status AsyncShard::publish() noexcept {
  if (is_published_) return {};
  is_published_ = true;
  return region_.publish();
}

Status AsyncShard::start(float* to, const Gradients& gradients) noexcept {
  version_ = table_.first_version();
  if (const Checkpoint* const from = table_.restored(); from != nullptr) {
    try {
      for (const ShardPiece& piece : table_.pieces)
        if (piece.server == home_) restore_piece(*from, table_, piece, to, updater_);
    } catch (...) {
      return caught_status();
    }
    return {};
  }
  const DType wire = table_.options.wire;
  for (const Run& run : runs_) {
    const std::byte* const from = gradients.initial(run.tensor, run.first);
    const auto count = static_cast<std::size_t>(run.count);
    if (wire == DType::f32)
      std::memcpy(to + run.offset, from, count * sizeof(float));
    else
      weft::kernels::widen(to + run.offset, from, wire, count);
  }
  return {};
}

Sources AsyncShard::sources(const Run& run, const Gradients& gradients) noexcept {
  sources_.clear();
  for (const std::size_t i : contributors_)
    sources_.push_back(gradients.source(i, run.tensor, run.first));
  return sources_;
}

float* AsyncShard::master(const Tensor& buffer) noexcept {
  if (!master_.empty()) return master_.data();
  return reinterpret_cast<float*>(buffer.data()) + header_;
}

// The pushes of the slowest worker still there, plus the staleness bound.
std::uint64_t AsyncShard::permit(const Gradients& gradients) const noexcept {
  constexpr auto kAny = std::numeric_limits<std::uint64_t>::max();
  const Consistency& consistency = table_.options.consistency;
  if (consistency.kind != Consistency::Kind::ssp) return kAny;
  std::uint64_t slowest = kAny - consistency.staleness;
  for (std::size_t i = 0; i < done_.size(); ++i)
    if (!gradients.is_gone(i)) slowest = std::min(slowest, done_[i]);
  return slowest + consistency.staleness;
}

Status AsyncShard::write(Checkpointer& to) noexcept {
  return save_shard(to, table_, home_, version_, master(newest_), updater_);
}

std::size_t AsyncShard::snapshot_bytes() noexcept {
  return sizeof(Counts) + (done_.size() + mask_.size()) * sizeof(std::uint64_t) +
         (1 + updater_.arrays().size()) * elements() * sizeof(float);
}

void AsyncShard::save(std::byte* to) noexcept {
  const auto put = [&](const void* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    to += bytes;
  };
  const Counts counts{version_, has_parameters_, updater_.progress(), statistics_};
  put(&counts, sizeof counts);
  put(done_.data(), done_.size() * sizeof(std::uint64_t));
  put(mask_.data(), mask_.size() * sizeof(std::uint64_t));
  if (!has_parameters_) return;
  put(master(newest_), elements() * sizeof(float));
  for (const float* const array : updater_.arrays()) put(array, elements() * sizeof(float));
}

// Completes every step that can fail before it changes the current state.
Status AsyncShard::load(const std::byte* from, int rank) noexcept {
  const auto get = [&](void* to, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    from += bytes;
  };
  Counts counts;
  get(&counts, sizeof counts);
  if (!updater_.accepts(counts.progress))
    return refuse(Code::mismatch, [&] {
      return nonsense(
          "fetch a shard", rank, region_.spec().name,
          fmt::format("a state with the gradients of {} updates kept", counts.progress.kept));
    });
  if (Status status = publish(); !status) return status;
  Tensor buffer;
  if (counts.has_parameters != 0) {
    auto next = region_.next(until_);
    if (!next) return next.status();
    buffer = *next;
  }
  get(done_.data(), done_.size() * sizeof(std::uint64_t));
  get(mask_.data(), mask_.size() * sizeof(std::uint64_t));
  version_ = counts.version;
  has_parameters_ = counts.has_parameters != 0;
  updater_.resume(counts.progress);
  statistics_ = counts.statistics;
  if (!has_parameters_) return {};
  get(master(buffer), elements() * sizeof(float));
  for (float* const array : updater_.arrays()) get(array, elements() * sizeof(float));
  finish(buffer);
  return publish();
}

}  // namespace weft::pslib
