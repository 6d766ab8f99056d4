#include "runtime/collective/device_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/fail.hpp"
#include "p2p/transport/cuda/gpu_page.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "runtime/collective/slice.hpp"

namespace weft::detail {
namespace {

using Kind = CollectiveKind;
using p2p::kGpuPage;

constexpr const char* kOperation = "prove GPU paths";

bool is_for_gpus(Kind kind) noexcept {
  return kind == Kind::all_reduce || kind == Kind::reduce_scatter || kind == Kind::all_gather ||
         kind == Kind::broadcast || kind == Kind::reduce;
}

std::string kernel_name(const Signature& signature) {
  constexpr std::array<std::string_view, 9> kDtypes{"f64", "f32", "f16", "bf16",   "i64",
                                                    "i32", "i8",  "u8",  "boolean"};
  constexpr std::array<std::string_view, 8> kReductions{"sum", "prod",    "min",    "max",
                                                        "avg", "bit_and", "bit_or", "bit_xor"};
  return fmt::format("weft_reduce_{}_{}", kDtypes.at(static_cast<std::size_t>(signature.dtype)),
                     kReductions.at(signature.reduction));
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

DeviceGroup::DeviceGroup(p2p::LocalRank& local, std::span<const int> ranks, int me)
    : local_(local), ranks_(ranks), me_(me), silent_(local.waiter) {}

void DeviceGroup::log(const std::string& why) const {
  local_.log->info(Subsystem::path, "a group's tensors on GPUs go through host memory: {}", why);
}

void DeviceGroup::need(std::uint32_t chunk) {
  if (std::ranges::find(chunks_, chunk) == chunks_.end()) chunks_.push_back(chunk);
}

bool DeviceGroup::place(const Tensor& tensor, DeviceCall& call, std::uint32_t& chunk,
                        std::uint64_t& offset) {
  if (tensor.memory().is_host()) {
    refuse(Why::host_tensor,
           [] { return std::string("this rank has a tensor in host memory beside one on a GPU"); });
    return false;
  }
  const auto at = local_.gpus->chunk_at(tensor.data(), tensor.bytes());
  if (!at) {
    refuse(Why::no_arena,
           [&] { return fmt::format("the tensor {} lies in no arena", tensor.text()); });
    return false;
  }
  if (call.gpu != nullptr && call.gpu != at->gpu) {
    refuse(Why::two_gpus, [] { return std::string("this rank has tensors on two GPUs"); });
    return false;
  }
  const auto exported = local_.gpus->exported(at->chunk);
  if (!exported) {
    refuse(Why::not_exported, [&] {
      return fmt::format("the driver does not export the memory of {}", tensor.memory().text());
    });
    return false;
  }
  call.gpu = at->gpu;
  call.places.gpu = exported->gpu;
  chunk = at->chunk;
  offset = at->offset;
  need(chunk);
  return true;
}

bool DeviceGroup::find_kernel(const Task& task, DeviceCall& call) {
  if (!combines(task.kind())) return true;
  if (task.signature.reduction == Signature::kUserFunction) {
    refuse(Why::own_function,
           [] { return std::string("a function of the application's combines in host memory"); });
    return false;
  }
  if (ranks_.size() > p2p::cuda::kernels::kMostSources) {
    refuse(Why::many_ranks, [] {
      return fmt::format("the kernels are for {} ranks at most", p2p::cuda::kernels::kMostSources);
    });
    return false;
  }
  const p2p::cuda::GpuKernels* const kernels = load_kernels(call);
  if (kernels == nullptr) return false;
  call.kernel = kernels->find(kernel_name(task.signature));
  if (call.kernel == nullptr)
    refuse(Why::no_kernels, [&] {
      return kernels->refusal().empty()
                 ? fmt::format("there is no kernel {}", kernel_name(task.signature))
                 : kernels->refusal();
    });
  return call.kernel != nullptr;
}

const p2p::cuda::GpuKernels* DeviceGroup::load_kernels(const DeviceCall& call) {
  std::optional<p2p::cuda::StreamWords::NoneBegins> none_begins;
  if (!call.gpu->has_looked_for_kernels()) none_begins.emplace();
  if (none_begins && local_.gpus->any_stream_waits()) {
    refuse_for_now(Why::stream_waits,
                   [] { return std::string("kernels can't be loaded while a stream waits"); });
    return nullptr;
  }
  return &call.gpu->kernels();
}

bool DeviceGroup::prepare(DeviceCall& call) {
  const auto made = pages_.find(call.gpu->ordinal());
  if (made != pages_.end())
    return place(made->second, call, call.places.pages_chunk, call.places.pages_offset);
  const p2p::cuda::StreamWords::NoneBegins none_begins;
  if (local_.gpus->any_stream_waits()) {
    refuse_for_now(Why::stream_waits, [] {
      return std::string("a group can't begin to use a GPU while a stream waits");
    });
    return false;
  }
  const Memory memory = call.gpu->memory();
  const std::size_t bytes = ranks_.size() * kGpuPage;
  try {
    (void)streams_.of(call.gpu);
    const Tensor pages(p2p::make_storage(local_.gpus->arena(memory), bytes), 0, DType::u8,
                       {static_cast<std::int64_t>(bytes)});
    pages_.emplace(call.gpu->ordinal(), pages);
    return place(pages, call, call.places.pages_chunk, call.places.pages_offset);
  } catch (const Error& error) {
    refuse_for_now(Why::no_pages, [&] {
      return fmt::format("no memory for pages that prove the paths: {}",
                         error.status().detail().message);
    });
    return false;
  }
}

std::unique_ptr<DeviceCall> DeviceGroup::offer(const Task& task, const Call& call) {
  refusal_passes_ = false;
  last_refusal_.clear();
  if (task.count == 0 || size() < 2) {  // nothing is combined or moved, which the log need not say
    last_refusal_ = size() < 2 ? "the group has one rank" : "the call's tensors are empty";
    return {};
  }
  if (!is_for_gpus(task.kind())) {
    const auto kind = static_cast<unsigned>(task.kind());
    refuse(static_cast<Why>(static_cast<unsigned>(Why::kind) + kind),
           [&] { return fmt::format("GPUs carry out no {}", name(task.kind())); });
    return {};
  }
  auto offered = std::make_unique<DeviceCall>();
  DevicePlaces& places = offered->places;
  if (task.in_bytes > 0 && !place(call.in, *offered, places.in_chunk, places.in_offset)) return {};
  if (task.out_bytes > 0 && !place(call.out, *offered, places.out_chunk, places.out_offset))
    return {};
  const p2p::cuda::Gpu::Current current(*offered->gpu);
  if (!find_kernel(task, *offered) || !prepare(*offered)) return {};
  offered->ins.resize(ranks_.size());
  offered->outs.resize(ranks_.size());
  offered->gpus.resize(ranks_.size());
  offered->pages.resize(ranks_.size());
  offered->held.reserve(3 * ranks_.size() + 2);
  return offered;
}

DeviceGroup::Found DeviceGroup::find(int member, std::uint32_t chunk, std::uint64_t offset,
                                     std::uint64_t bytes,
                                     const std::shared_ptr<p2p::cuda::Gpu>& by) {
  using How = Found::How;
  const auto slice = [&](const Tensor& whole) -> Found {
    if (offset > whole.bytes() || bytes > whole.bytes() - offset) {
      refuse(Why::outside, [] { return std::string("a member's tensor lies outside its chunk"); });
      return {How::later};
    }
    return {How::here, {whole.storage(), offset, DType::u8, {static_cast<std::int64_t>(bytes)}}};
  };
  for (const Known& known : known_)
    if (known.member == member && known.chunk == chunk && known.by == by->ordinal())
      return slice(known.whole);
  const int rank = ranks_[static_cast<std::size_t>(member)];
  p2p::cuda::PeerMemory& peers = local_.gpus->peers();
  const auto told = peers.told(rank, chunk);
  if (!told && peers.has_dropped(rank)) {
    refuse(Why::no_room,
           [&] { return fmt::format("there is no room to keep all chunks of rank {}", rank); });
    return {How::later};
  }
  if (!told) return {};
  // To map memory may wait for all streams, and this one for the call.
  const p2p::cuda::StreamWords::NoneBegins none_begins;
  if (local_.gpus->any_stream_waits()) {
    refuse(Why::stream_waits, [&] {
      return fmt::format("new memory of rank {} can't be mapped while a stream waits", rank);
    });
    return {How::later};
  }
  auto mapped = peers.map(rank, {chunk, 0, told->bytes}, by);
  if (mapped.way != p2p::cuda::GpuWay::mapped) {
    const bool is_passing = mapped.way == p2p::cuda::GpuWay::not_mapped;
    refuse(is_passing ? Why::not_mapped : Why::unreachable, [&] {
      return fmt::format("towards rank {}: {}{}{}", rank, p2p::cuda::reason_of(mapped.way),
                         mapped.detail.empty() ? "" : ": ", mapped.detail);
    });
    return {is_passing ? How::later : How::never};
  }
  return slice(
      known_.emplace_back(Known{member, chunk, by->ordinal(), std::move(mapped.bytes)}).whole);
}

std::optional<bool> DeviceGroup::known(const Gpus& gpus) const noexcept {
  for (const auto& [configuration, good] : configurations_)
    if (configuration == gpus) return good;
  return std::nullopt;
}

void DeviceGroup::learn(Gpus gpus, bool good) {
  for (auto& [configuration, known] : configurations_)
    if (configuration == gpus) {
      known = good;
      return;
    }
  configurations_.emplace_back(std::move(gpus), good);
}

void DeviceGroup::begin_pages(const DeviceCall& call, std::uint64_t nonce) {
  page_copies_.clear();
  for (int r = 0; r < size(); ++r) {
    if (r == me_) continue;
    p2p::OwnedBlock block(local_.staging, kGpuPage);
    p2p::fill_page(block.data(), nonce);
    const Tensor from = Tensor::wrap(block.data(), DType::u8, {kGpuPage});
    page_copies_.push_back(
        {r, local_.gpus->copy_parts(kOperation, std::span(&from, 1),
                                    call.pages[static_cast<std::size_t>(r)],
                                    std::span(&local_.staging, 1), std::move(block))});
  }
}

void DeviceGroup::begin_reading(std::span<const Tensor> pages) {
  page_copies_.clear();
  for (int r = 0; r < size(); ++r)
    if (r != me_)
      page_copies_.push_back(
          {r, local_.gpus->stage(kOperation, pages.subspan(static_cast<std::size_t>(r), 1),
                                 p2p::OwnedBlock(local_.staging, kGpuPage))});
}

std::optional<Status> DeviceGroup::poll_pages() noexcept {
  Status all;
  for (PageCopy& page : page_copies_) {
    const auto outcome = page.copy.poll();
    if (!outcome) return std::nullopt;
    if (!outcome->ok()) all = *outcome;
  }
  return all;
}

bool DeviceGroup::hold(std::span<const std::uint64_t> nonces) noexcept {
  bool all = true;
  for (PageCopy& page : page_copies_) {
    const p2p::OwnedBlock block = page.copy.take_block();
    all = p2p::holds_page(block.data(), nonces[static_cast<std::size_t>(page.member)]) && all;
  }
  page_copies_.clear();
  return all;
}

Tensor DeviceGroup::own_page(const DeviceCall& call, int member) const {
  return pages_.at(call.gpu->ordinal())
      .part(static_cast<std::int64_t>(member) * static_cast<std::int64_t>(kGpuPage),
            {static_cast<std::int64_t>(kGpuPage)});
}

p2p::cuda::PeerReduction DeviceGroup::share(const Task& task, const DeviceCall& call) {
  const auto me = static_cast<std::size_t>(me_);
  const auto ranks = ranks_.size();
  const auto root = static_cast<std::size_t>(std::max(0, task.root()));
  p2p::cuda::PeerReduction reduction;
  copies_.clear();
  switch (task.kind()) {
    case Kind::broadcast:
      if (me != root) copies_.push_back({call.outs[me], call.ins[root], task.out_bytes});
      break;
    case Kind::all_gather:
      for (std::size_t i = 0; i < ranks; ++i) {
        const std::size_t r = (me + i) % ranks;
        const auto member = static_cast<int>(r);
        std::byte* const to = call.outs[me] + task.at(member);
        if (task.part_bytes(member) > 0 && to != call.ins[r])
          copies_.push_back({to, call.ins[r], task.part_bytes(member)});
      }
      break;
    default: {
      const bool scatters = task.kind() == Kind::reduce_scatter;
      const Slice slice = scatters ? Slice{task.offsets[me], task.part(me_)}
                                   : slice_of(task.count, task.element, me_, size());
      if (slice.count == 0) break;
      const auto first = static_cast<std::size_t>(slice.first) * task.element;
      auto& launch = reduction.launch;
      for (std::size_t r = 0; r < ranks; ++r) launch.sources[r] = chars(call.ins[r] + first);
      launch.source_count = static_cast<std::uint32_t>(ranks);
      launch.target_count = 1;
      if (scatters) {
        launch.targets[0] = chars(call.outs[me]);
      } else if (task.kind() == Kind::reduce) {
        launch.targets[0] = chars(call.outs[root] + first);
      } else {
        // Each begins with its own, so that not all write to one at once.
        for (std::size_t i = 0; i < ranks; ++i)
          launch.targets[i] = chars(call.outs[(me + i) % ranks] + first);
        launch.target_count = static_cast<std::uint32_t>(ranks);
      }
      launch.count = static_cast<std::uint64_t>(slice.count);
      launch.scale = scale_of(ranks);
      launch.divisor = static_cast<double>(ranks) * launch.scale;
      p2p::cuda::divide(launch, task.element);
      reduction.kernel = call.kernel;
      reduction.element = task.element;
    }
  }
  return reduction;
}

void DeviceGroup::begin(const Task& task, DeviceCall& call) {
  const p2p::cuda::PeerReduction reduction = share(task, call);
  begun_ = reduction.kernel != nullptr ? 1 : copies_.size();
  call.take({});
  if (begun_ == 0) return;
  p2p::cuda::StreamHandle stream = nullptr;
  {
    const p2p::cuda::Gpu::Current current(*call.gpu);
    stream = streams_.of(call.gpu);
  }
  auto begun = p2p::cuda::begin_peer_work(name(task.kind()), call.gpu, stream, call.held, copies_,
                                          reduction);
  const Status status = begun.status;
  call.take(std::move(begun));
  status.or_throw();  // what has begun goes on, and the group waits for it
}

}  // namespace weft::detail
