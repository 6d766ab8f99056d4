#include "runtime/collective/slot_gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/fail.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "runtime/collective/signature.hpp"

namespace weft::detail {
namespace {

using Kind = CollectiveKind;
using p2p::cuda::GpuKernels;

constexpr std::array<std::string_view, 9> kDtypes{"f64", "f32", "f16", "bf16",   "i64",
                                                  "i32", "i8",  "u8",  "boolean"};
constexpr std::array<std::string_view, 8> kReductions{"sum", "prod",    "min",    "max",
                                                      "avg", "bit_and", "bit_or", "bit_xor"};

bool is_for_gpus(Kind kind) noexcept {
  return kind == Kind::all_reduce || kind == Kind::reduce_scatter || kind == Kind::all_gather ||
         kind == Kind::broadcast || kind == Kind::reduce;
}

/// The type in which pairs are combined, as kernels are named.
std::string_view wide_of(DType dtype, bool is_mean) noexcept {
  switch (dtype) {
    case DType::f16:
    case DType::bf16:
      return "f32";
    case DType::i64:
      return is_mean ? "i128" : "i64";
    case DType::i32:
      return is_mean ? "i64" : "i32";
    case DType::i8:
    case DType::u8:
      if (is_mean) return "i32";
      [[fallthrough]];
    default:
      return kDtypes.at(static_cast<std::size_t>(dtype));
  }
}

/// As Mean of base/kernels: a power of two by which no sum overflows.
double scale_of(std::size_t ranks) noexcept {
  double scale = 1;
  for (std::size_t all = 1; all < ranks; all *= 2) scale /= 2;
  return scale;
}

const unsigned char* chars(const std::byte* at) noexcept {
  return reinterpret_cast<const unsigned char*>(at);
}
unsigned char* chars(std::byte* at) noexcept { return reinterpret_cast<unsigned char*>(at); }

}  // namespace

SlotGpu::SlotGpu(p2p::LocalRank& local, p2p::Mesh& mesh, std::span<const int> ranks, int me)
    : local_(local), mesh_(mesh), ranks_(ranks), me_(me), silent_(local.waiter) {}

void SlotGpu::refuse(const std::string& why, bool passes) noexcept {
  refusal_passes_ = passes;
  try {
    if (std::ranges::find(told_, why) != told_.end()) return;
    told_.push_back(why);
    local_.log->info(Subsystem::path, "a group's tensors on GPUs go through host memory: {}", why);
  } catch (const std::bad_alloc&) {
    return;  // it goes untold
  }
}

bool SlotGpu::place(const Tensor& tensor, std::shared_ptr<p2p::cuda::Gpu>& gpu) {
  if (tensor.memory().is_host()) {
    refuse("this rank has a tensor in host memory beside one on a GPU", false);
    return false;
  }
  const auto at = local_.gpus->chunk_at(tensor.data(), tensor.bytes());
  if (!at) {
    refuse(fmt::format("the tensor {} lies in no arena", tensor.text()), false);
    return false;
  }
  if (gpu != nullptr && gpu != at->gpu) {
    refuse("this rank uses two GPUs in one group", false);
    return false;
  }
  gpu = at->gpu;
  return is_reached(tensor);
}

bool SlotGpu::is_reached(const Tensor& tensor) {
  for (const int rank : ranks_) {
    if (rank == local_.rank) continue;
    p2p::Channel& channel = *mesh_.peer(rank).channel;
    std::string why;
    // Within a host GPUs copy, which is found out when slots are attached to.
    if (channel.fabric() == p2p::FabricKind::shm || channel.reaches_gpu(tensor, &why)) continue;
    if (why.empty()) why = "the path reaches host memory alone";
    refuse(fmt::format("towards rank {}: {}", rank, why), false);
    return false;
  }
  return true;
}

bool SlotGpu::takes(const Task& task, const Call& call) {
  refusal_passes_ = false;
  // Nothing is combined or moved, which the log need not say.
  if (task.count == 0 || ranks_.size() < 2 || !failure_.ok()) return false;
  if (!is_for_gpus(task.kind())) {
    refuse(fmt::format("GPUs carry out no {}", name(task.kind())), false);
    return false;
  }
  if (combines(task.kind()) && task.signature.reduction == Signature::kUserFunction) {
    refuse("a function of the application's combines in host memory", false);
    return false;
  }
  std::shared_ptr<p2p::cuda::Gpu> gpu = gpu_;
  if (task.in_bytes > 0 && !place(call.in, gpu)) return false;
  if (task.out_bytes > 0 && !place(call.out, gpu)) return false;
  if (gpu == nullptr) {
    refuse("this rank's tensors of a call are empty", false);
    return false;
  }
  gpu_ = std::move(gpu);
  return prepare();
}

bool SlotGpu::prepare() {
  const p2p::cuda::Gpu::Current current(*gpu_);
  if (local_.gpus->any_stream_waits()) {
    refuse("kernels can't be loaded, and memory can't be taken, while a stream waits", true);
    return false;
  }
  if (stream_ == nullptr) stream_ = streams_.of(gpu_);
  return true;
}

Tensor SlotGpu::make(std::size_t bytes) const {
  const std::size_t some = std::max<std::size_t>(bytes, 1);
  return {p2p::make_storage(local_.gpus->arena(gpu_->memory()), some), 0, DType::u8,
          Shape{static_cast<std::int64_t>(bytes)}};
}

std::optional<GpuArithmetic> SlotGpu::find_kernels(const Task& task, bool by_pairs,
                                                   std::size_t wide) {
  const Signature& signature = task.signature;
  GpuArithmetic found{.element = task.element,
                      .wide = wide,
                      .ranks = static_cast<std::uint32_t>(ranks_.size()),
                      .scale = scale_of(ranks_.size())};
  found.divisor = static_cast<double>(ranks_.size()) * found.scale;
  if (!combines(task.kind())) return found;
  const p2p::cuda::Gpu::Current current(*gpu_);
  const GpuKernels& kernels = gpu_->kernels();
  bool all = true;
  const auto find = [&](const std::string& kernel) {
    const p2p::cuda::Function function = kernels.find(kernel);
    if (function == nullptr && std::exchange(all, false))
      refuse(kernels.refusal().empty() ? fmt::format("there is no kernel {}", kernel)
                                       : kernels.refusal(),
             false);
    return function;
  };
  const std::string_view dtype = kDtypes.at(static_cast<std::size_t>(signature.dtype));
  const std::string_view reduction = kReductions.at(signature.reduction);
  const bool is_mean = signature.reduction == static_cast<std::uint8_t>(Reduction::avg);
  if (!by_pairs) {
    if (ranks_.size() > p2p::cuda::kernels::kMostSources) {
      refuse(
          fmt::format("the kernels combine {} tensors at most", p2p::cuda::kernels::kMostSources),
          false);
      return std::nullopt;
    }
    found.combine = find(fmt::format("weft_reduce_{}_{}", dtype, reduction));
  } else {
    found.join = find(fmt::format("weft_reduce_{}_{}", wide_of(signature.dtype, is_mean),
                                  is_mean ? "sum" : reduction));
    if (is_mean || signature.dtype == DType::f16 || signature.dtype == DType::bf16) {
      const char* const what = is_mean ? "mean" : "number";
      found.widen = find(fmt::format("weft_widen_{}_{}", dtype, what));
      found.finish = find(fmt::format("weft_finish_{}_{}", dtype, what));
    }
  }
  return all ? std::optional(found) : std::nullopt;
}

void SlotGpu::begin_call(const GpuArithmetic& arithmetic, std::array<Tensor, 3> tensors) noexcept {
  arithmetic_ = arithmetic;
  tensors_ = std::move(tensors);
}

void SlotGpu::begin(GpuWork& work, std::span<const Tensor> arrivals,
                    std::span<const p2p::cuda::PeerCopy> copies,
                    const p2p::cuda::PeerReduction& reduction) noexcept {
  if (!failure_.ok()) return;
  try {
    auto place = std::ranges::find_if(kept_, [](const Kept& kept) { return !kept.work; });
    if (place == kept_.end()) place = kept_.emplace(kept_.end());
    std::vector<Tensor> held(tensors_.begin(), tensors_.end());
    held.insert(held.end(), arrivals.begin(), arrivals.end());
    auto begun =
        p2p::cuda::begin_peer_work(operation_, gpu_, stream_, std::move(held), copies, reduction);
    place->work = std::move(begun.work);
    place->nth = ++begun_in_all_;
    work.nth_ = place->nth;
    work.at_ = static_cast<std::size_t>(place - kept_.begin());
    ++begun_;
    if (!begun.status.ok()) failure_ = std::move(begun.status);
  } catch (...) {
    failure_ = caught_status();
  }
}

void SlotGpu::copy(GpuWork& work, std::byte* to, const std::byte* from, std::size_t bytes,
                   const Tensor& arrival) noexcept {
  const p2p::cuda::PeerCopy copy{to, from, bytes};
  begin(work, std::span(&arrival, arrival.storage() == nullptr ? 0 : 1), std::span(&copy, 1), {});
}

void SlotGpu::combine(GpuWork& work, std::byte* to, std::span<const std::byte* const> sources,
                      std::int64_t count, std::span<const Tensor> arrivals) noexcept {
  p2p::cuda::PeerReduction reduction{.kernel = arithmetic_.combine, .element = arithmetic_.element};
  auto& launch = reduction.launch;
  for (std::size_t i = 0; i < sources.size(); ++i) launch.sources[i] = chars(sources[i]);
  launch.source_count = static_cast<std::uint32_t>(sources.size());
  launch.targets[0] = chars(to);
  launch.target_count = 1;
  launch.count = static_cast<std::uint64_t>(count);
  launch.scale = arithmetic_.scale;
  launch.divisor = arithmetic_.divisor;
  p2p::cuda::divide(launch, reduction.element);
  begin(work, arrivals, {}, reduction);
}

void SlotGpu::join(GpuWork& work, std::byte* to, const std::byte* a, const std::byte* b,
                   std::size_t count, const Tensor& arrival) noexcept {
  p2p::cuda::PeerReduction reduction{.kernel = arithmetic_.join, .element = arithmetic_.wide};
  auto& launch = reduction.launch;
  launch.sources[0] = chars(a);
  launch.sources[1] = chars(b);
  launch.source_count = 2;
  launch.targets[0] = chars(to);
  launch.target_count = 1;
  launch.count = count;
  p2p::cuda::divide(launch, reduction.element);
  begin(work, std::span(&arrival, 1), {}, reduction);
}

void SlotGpu::convert(GpuWork& work, p2p::cuda::Function kernel, std::byte* to,
                      const std::byte* from, std::size_t count) noexcept {
  p2p::cuda::PeerReduction reduction{.kernel = kernel, .element = arithmetic_.element};
  auto& launch = reduction.launch;
  launch.sources[0] = chars(from);
  launch.source_count = arithmetic_.ranks;
  launch.targets[0] = chars(to);
  launch.target_count = 1;
  launch.count = count;
  launch.scale = arithmetic_.scale;
  launch.divisor = arithmetic_.divisor;
  begin(work, {}, {}, reduction);
}

void SlotGpu::widen(GpuWork& work, std::byte* to, const std::byte* from,
                    std::size_t count) noexcept {
  if (arithmetic_.widen == nullptr) return copy(work, to, from, count * arithmetic_.element);
  convert(work, arithmetic_.widen, to, from, count);
}

void SlotGpu::finish(GpuWork& work, std::byte* to, const std::byte* sum,
                     std::size_t count) noexcept {
  if (arithmetic_.finish == nullptr) return copy(work, to, sum, count * arithmetic_.element);
  convert(work, arithmetic_.finish, to, sum, count);
}

bool SlotGpu::poll(std::size_t at) noexcept {
  Kept& kept = kept_[at];
  if (!kept.work) return true;
  const auto outcome = kept.work->poll();
  if (!outcome) return false;
  kept.work.reset();
  if (!outcome->ok() && failure_.ok()) failure_ = *outcome;
  return true;
}

bool SlotGpu::has_ended(const GpuWork& work) noexcept {
  // Its place may have been given to a later work, by which it has ended.
  const bool is_kept = kept_[work.at_].nth == work.nth_;
  return (!is_kept || poll(work.at_)) && failure_.ok();
}

bool SlotGpu::works() noexcept {
  bool works = false;
  for (std::size_t at = 0; at < kept_.size(); ++at) works = !poll(at) || works;
  const bool is_silent = works || looks_again_;
  silent_.set(is_silent);
  // One that is about to sleep has looked before.
  if (is_silent && !is_silent_) local_.ring();
  is_working_ = works;
  is_silent_ = is_silent;
  return works;
}

}  // namespace weft::detail
