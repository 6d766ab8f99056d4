// Mapping the owner's buffers step by step, for a caller that does not wait.
#include <optional>

#include "base/fail.hpp"
#include "p2p/slot/put/writer.hpp"
#include "p2p/transport/cuda/gpu_page.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {

using p2p::cuda::GpuWay;
using Step = p2p::MapSteps::Step;

std::optional<GpuWay> PutWriter::map_step(const std::shared_ptr<p2p::cuda::Gpu>& gpu) noexcept {
  if (!mapped_) return GpuWay::nic;
  p2p::MapSteps& steps = mapped_->steps;
  try {
    std::optional<p2p::MappedPuts::Way> end;
    if (steps.step == Step::begins)
      end = begin_to_map(gpu);
    else if (steps.step != Step::settled)
      end = go_on_mapping();
    if (end) settle_steps(gpu, std::move(*end));
  } catch (...) {
    settle_steps(
        gpu, {GpuWay::copy_failed, text_or_empty([] { return caught_status().detail().message; })});
  }
  const bool has_ended = steps.step == Step::settled || steps.step == Step::begins;
  return has_ended ? std::optional(steps.way) : std::nullopt;
}

std::optional<p2p::MappedPuts::Way> PutWriter::begin_to_map(
    const std::shared_ptr<p2p::cuda::Gpu>& gpu) {
  if (mapped_->offered() != GpuWay::mapped) return p2p::MappedPuts::Way{mapped_->offered()};
  // To map memory may wait for all streams.
  const p2p::cuda::StreamWords::NoneBegins none_begins;
  if (local_.gpus->any_stream_waits()) return p2p::MappedPuts::Way{GpuWay::not_mapped};
  if (auto way = mapped_->map(owner_.rank, gpu); way.way != GpuWay::mapped) return way;
  const GpuWay proof = local_.gpus->peers().proven(owner_.rank, mapped_->chunk(), gpu->ordinal());
  if (proof != GpuWay::unproven) return p2p::MappedPuts::Way{proof};
  mapped_->steps.nonce = p2p::make_nonce();
  const std::lock_guard lock(pending_.mutex());
  mapped_->begin_page(mapped_->steps.nonce);
  mapped_->steps.step = Step::writes;
  return std::nullopt;
}

std::optional<p2p::MappedPuts::Way> PutWriter::go_on_mapping() {
  using Way = p2p::MappedPuts::Way;
  p2p::MapSteps& steps = mapped_->steps;
  if (steps.step == Step::asks) {
    const auto seen = mapped_->answered(steps.nonce);
    if (!seen) return std::nullopt;
    return Way{*seen ? GpuWay::mapped : GpuWay::not_seen};
  }
  const std::lock_guard lock(pending_.mutex());
  const auto outcome = mapped_->poll_page();
  if (!outcome) return std::nullopt;
  if (!outcome->ok()) {
    mapped_->drop_all();
    return Way{GpuWay::copy_failed, outcome->detail().message};
  }
  if (steps.step == Step::writes) {
    mapped_->begin_reading_page();
    steps.step = Step::reads;
    return std::nullopt;
  }
  if (!mapped_->page_came_back(steps.nonce)) return Way{GpuWay::writes_lost};
  ask_owner(steps.nonce);
  steps.step = Step::asks;
  return std::nullopt;
}

void PutWriter::settle_steps(const std::shared_ptr<p2p::cuda::Gpu>& gpu,
                             p2p::MappedPuts::Way way) noexcept {
  p2p::MapSteps& steps = mapped_->steps;
  // A refusal that passes is met again by the next call.
  const bool passes = way.way == GpuWay::not_mapped;
  const bool says_something = way.way != GpuWay::copy_failed && !passes;
  if (says_something && mapped_->offered() == GpuWay::mapped)
    local_.gpus->peers().prove(owner_.rank, mapped_->chunk(), gpu->ordinal(), way.way);
  if (way.way == GpuWay::mapped) {
    const std::lock_guard lock(pending_.mutex());
    mapped_->accept();
  }
  steps.way = way.way;
  if (passes) {
    steps.step = Step::begins;
    why_not_.mapped = p2p::cuda::reason_of(way.way);
    return;
  }
  steps.step = Step::settled;
  settle_way(way);
}

}  // namespace weft::detail
