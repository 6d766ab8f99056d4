// How the ranks of a host agree that their streams run a plan: as a call that the GPUs carry out,
// of which only the meeting takes place. Each rank shows its words besides, and reaches those of
// the others, before it says yes.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/fail.hpp"
#include "p2p/transport/cuda/gpus.hpp"
#include "p2p/transport/shm/shm_channel.hpp"
#include "runtime/collective/host_group.hpp"

namespace weft::detail {

using p2p::cuda::StreamMeeting;

std::shared_ptr<PlannedCall> HostGroup::make_preparation(PlannedCall& call) {
  auto one = std::make_shared<PlannedCall>();
  // If a plan goes by host memory for now, its other way is the one on GPUs.
  const bool is_other = !GpuCall::is_needed(call.call) && call.other_way.has_value();
  one->call = is_other ? call.other_way->call : call.call;
  one->task = is_other ? call.other_way->task : call.task;
  one->task.signature.by_streams = 1;
  one->fingerprint = one->task.signature.fingerprint();
  one->with_word = true;  // no tensor is touched
  one->streams.prepares = call.streams.runs;
  StreamRuns& runs = *call.streams.runs;
  runs.partners.assign(ranks_.size(), nullptr);
  try {
    if (!GpuCall::is_needed(one->call)) {
      if (call.gpu == nullptr) runs.refusal = "this rank's tensors lie in host memory";
    } else if (p2p::waits_on_thread(local_)) {
      runs.refusal = "CUDA_LAUNCH_BLOCKING is set";
    } else {
      runs.refusal.clear();
      offer_words(*one);
    }
  } catch (...) {
    runs.refusal = caught_status().detail().message;
    one->device.reset();
  }
  return one;
}

void HostGroup::offer_words(PlannedCall& one) {
  StreamRuns& runs = *one.streams.prepares;
  offer(one, one.task, one.call);
  if (one.device != nullptr && device_->prepare_streams(one.task, *one.device)) {
    DeviceCall& device = *one.device;
    runs.words = take_words();
    const p2p::Block& block = runs.words->block();
    if (pin_words(runs, device.gpu, local_.control, local_.control->chunk_data(block.chunk),
                  local_.control->chunk_bytes(block.chunk))) {
      export_chunk(block.chunk);
      device.places.words_chunk = block.chunk;
      device.places.words_offset = block.offset;
      return;
    }
  }
  runs.refusal = device_->last_refusal();
  one.asks_again = device_->refusal_passes();
  one.device.reset();
}

std::shared_ptr<const p2p::OwnedBlock> HostGroup::take_words() {
  const std::size_t bytes = StreamMeeting::words_bytes(ranks_.size());
  {
    // Not where plans go: the progress thread, which sets streams free, may let go of the last.
    const p2p::cuda::StreamWords::NoneBegins none_begins;
    if (!local_.gpus->any_stream_waits()) StreamMeeting::reap();
  }
  // Graphs of other ranks may still write the words of a plan that has gone here.
  const auto is_free = [](const Words& words) {
    return words.block.use_count() == 1 &&
           std::ranges::all_of(words.partners, [](const auto& partner) {
             return StreamMeeting::has_ended(partner.first, partner.second);
           });
  };
  auto free = std::ranges::find_if(words_, is_free);
  if (free == words_.end()) {
    words_.push_back({std::make_shared<const p2p::OwnedBlock>(local_.control, bytes), {}});
    std::memset(words_.back().block->data(), 0, bytes);
    free = words_.end() - 1;
  }
  free->partners.clear();
  StreamMeeting::reset(reinterpret_cast<std::uint32_t*>(free->block->data()), ranks_.size());
  return free->block;
}

bool HostGroup::pin_words(StreamRuns& runs, const std::shared_ptr<p2p::cuda::Gpu>& gpu,
                          std::shared_ptr<const void> memory, std::byte* data, std::size_t bytes) {
  const p2p::cuda::StreamWords::NoneBegins none_begins;
  if (local_.gpus->any_stream_waits()) {
    device_->refuse_for_now(DeviceGroup::Why::stream_waits, [] {
      return std::string("words can't be pinned while a stream waits");
    });
    return false;
  }
  runs.pins.push_back(
      local_.gpus->meetings.pin("prepare streams", gpu, std::move(memory), data, bytes));
  return true;
}

DeviceGroup::Found::How HostGroup::find_words(PlannedCall& call, int member,
                                              const DevicePlaces& places) {
  using How = DeviceGroup::Found::How;
  StreamRuns& runs = *call.streams.prepares;
  std::uint32_t*& words = runs.partners[static_cast<std::size_t>(member)];
  if (words != nullptr) return How::here;
  p2p::Channel& channel = *members_[static_cast<std::size_t>(member)].peer->channel;
  const auto found = channel.resolve(
      {places.words_chunk, places.words_offset, StreamMeeting::words_bytes(ranks_.size())});
  if (found.code() == Code::unreachable) {
    unknown_ = member;
    return How::unknown;
  }
  auto* const shm = dynamic_cast<p2p::ShmChannel*>(&channel);
  const auto mapping = shm == nullptr ? nullptr : shm->mapping_of(places.words_chunk);
  if (!found.ok() || mapping == nullptr ||
      p2p::sort_of_chunk(places.words_chunk) != p2p::ArenaSort::control ||
      places.words_offset % 64 != 0) {
    device_->refuse(DeviceGroup::Why::other_fabric, [&] {
      return fmt::format("the words of rank {} are not in shared memory",
                         ranks_[static_cast<std::size_t>(member)]);
    });
    return How::never;
  }
  if (!pin_words(runs, call.device->gpu, mapping, mapping->data(), mapping->bytes()))
    return How::later;
  words = reinterpret_cast<std::uint32_t*>(channel.map(*found));
  return How::here;
}

void HostGroup::refuse_streams(PlannedCall& call) noexcept {
  StreamRuns& runs = *call.streams.prepares;
  try {
    if (runs.refusal.empty()) runs.refusal = device_->last_refusal();
  } catch (...) {
    runs.refusal.clear();
  }
  // All have entered by host memory, so each reads the same marks: the refusal passes on all ranks
  // or on none.
  runs.may_pass = std::ranges::all_of(members_, [&](const Member& member) {
    const std::uint64_t word = member.area.call_word(call.number).load(std::memory_order_acquire);
    return static_cast<std::uint32_t>(word) == GroupArea::mark_for_now(call.mark);
  });
  runs.words.reset();
  runs.partners.clear();
  runs.pins.clear();
  say_done(call);
}

void HostGroup::begin_runs(PlannedCall& call) {
  DeviceCall& device = *call.device;
  const std::shared_ptr<StreamRuns> runs = call.streams.prepares;
  runs->work = device_->work(call.task, device);
  runs->text = call.task.signature.text();
  runs->held = std::move(device.held);
  Words& words = *std::ranges::find(words_, runs->words, &Words::block);
  for (std::uint32_t* const partner : runs->partners)
    if (partner != nullptr) words.partners.emplace_back(partner, StreamMeeting::use_of(partner));
  auto meeting = std::make_shared<StreamMeeting>(
      device.gpu, std::move(runs->words), std::move(runs->partners), std::move(runs->pins),
      static_cast<std::size_t>(me_), [&progress = local_.progress] { progress.turn_soon(); });
  local_.gpus->meetings.add(meeting);
  runs->meeting = std::move(meeting);
  watch_streams(runs);
  say_done(call);
}

}  // namespace weft::detail
