// Calls of a host that the GPUs of its ranks carry out, on each other's memory. The processors
// meet: no kernel and no stream waits for another rank. Each rank announces where its tensors are,
// says that its GPU reaches those of the others, and begins its share once all have said so. Where
// one can't, all go by host memory, under the same number.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/fail.hpp"
#include "p2p/memory/copy_once.hpp"
#include "p2p/transport/cuda/gpu_page.hpp"
#include "runtime/collective/host_group.hpp"

namespace weft::detail {

using DeviceStage = PlannedCall::Stage;
using DeviceStep = DeviceCall::Step;

void HostGroup::offer(PlannedCall& planned, const Task& task, const Call& call) {
  if (device_ == nullptr) device_ = std::make_unique<DeviceGroup>(local_, ranks_, me_);
  auto offered = device_->offer(task, call);
  if (offered != nullptr)
    for (const std::uint32_t chunk : device_->chunks()) export_chunk(chunk);
  planned.asks_again = offered == nullptr && device_->refusal_passes();
  if (offered == nullptr && planned.streams.prepares == nullptr) {
    // A graph that is refused is told this.
    if (planned.streams.runs == nullptr) planned.streams.runs = std::make_shared<StreamRuns>();
    planned.streams.runs->refusal = device_->last_refusal();
  }
  planned.device = std::move(offered);
}

bool HostGroup::works_silently() const noexcept {
  if (under_way().empty()) return false;
  const PlannedCall& call = *under_way().front();
  if (call.stage == DeviceStage::bringing) return true;
  return waits_for_own_gpu(call);
}

bool HostGroup::waits_for_own_gpu(const PlannedCall& call) noexcept {
  return call.on_device && call.stage == DeviceStage::entering &&
         call.device->step != DeviceStep::offered && call.device->step != DeviceStep::wrote &&
         call.device->step != DeviceStep::said;
}

bool HostGroup::is_working(const PlannedCall& call) noexcept {
  return call.device != nullptr && call.device->work.has_value();
}

bool HostGroup::gpu_works() noexcept {
  if (device_ == nullptr) return false;
  bool works = streams_work();
  works = !device_->poll_pages() || works;
  const auto look = [&](PlannedCall* call) {
    if (call != nullptr && is_working(*call) && !call->device->poll()) works = true;
  };
  for (const auto& call : under_way()) look(call.get());
  for (PlannedCall* const call : lent()) look(call);
  if (!stops_) return works;
  device_->set_silent(works);
  if (!works) say_stopped();
  return works;
}

void HostGroup::meet_on_device(PlannedCall& call) noexcept {
  while (call.on_device) {
    try {
      if (!step_on_device(call)) break;
    } catch (...) {
      const Status why = caught_status();
      if (call.on_device && call.device->step < DeviceStep::said) {
        device_->refuse(DeviceGroup::Why::failed, [&] { return why.detail().message; });
        say(call, DeviceWord::later);
        continue;
      }
      fail_on_gpu(call, "part", why);
      break;
    }
  }
}

HostGroup::Offers HostGroup::gather_offers(PlannedCall& call) {
  bool all = true;
  for (int r = 0; r < size(); ++r) {
    if (r == me_) continue;
    const std::uint64_t word = members_[static_cast<std::size_t>(r)]
                                   .area.call_word(call.number)
                                   .load(std::memory_order_acquire);
    if (!GroupArea::is_of(word, call.number)) {
      all = false;
      continue;
    }
    if (static_cast<std::uint32_t>(word) == GroupArea::mark_on_device(call.mark)) continue;
    if (!agrees(call, r, word)) return Offers::missing;
    device_->refuse(DeviceGroup::Why::not_offered, [&] {
      return fmt::format("rank {} does not offer its GPU", ranks_[static_cast<std::size_t>(r)]);
    });
    // One that does so for now passes that on to those that look at this rank first.
    fall_back(call, static_cast<std::uint32_t>(word) == call.mark);
    return Offers::refused;
  }
  return all ? Offers::all : Offers::missing;
}

DeviceGroup::Found::How HostGroup::find_on_device(PlannedCall& call) {
  using How = DeviceGroup::Found::How;
  DeviceCall& device = *call.device;
  const Task& task = call.task;
  device.held.clear();
  device.held.push_back(call.call.in);
  device.held.push_back(call.call.out);
  unknown_ = -1;
  std::vector<DevicePlaces> all(ranks_.size(), device.places);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (static_cast<int>(r) != me_)
      all[r] = p2p::copy_once<DevicePlaces>(members_[r].area.device_places(call.number));
    device.gpus[r] = all[r].gpu;
  }
  How how = How::here;
  const auto find = [&](int r, std::uint32_t chunk, std::uint64_t offset, std::uint64_t bytes) {
    auto found = device_->find(r, chunk, offset, bytes, device.gpu);
    how = found.how;
    if (how == How::unknown) unknown_ = r;
    return std::move(found.tensor);
  };
  for (int r = 0; r < size(); ++r) {
    const auto at = static_cast<std::size_t>(r);
    if (r == me_) {
      device.ins[at] = task.in;
      device.outs[at] = task.out;
      continue;
    }
    const DevicePlaces& places = all[at];
    const std::uint64_t in = in_bytes(task, r).value_or(0);
    const std::uint64_t out = out_bytes(call, r);
    if (in > 0) {
      Tensor found = find(r, places.in_chunk, places.in_offset, in);
      if (how != How::here) return how;
      device.ins[at] = found.data();
      device.held.push_back(std::move(found));
    }
    if (out > 0) {
      Tensor found = find(r, places.out_chunk, places.out_offset, out);
      if (how != How::here) return how;
      device.outs[at] = found.data();
      device.held.push_back(std::move(found));
    }
    if (call.streams.prepares != nullptr && (how = find_words(call, r, places)) != How::here)
      return how;
    device.pages[at] =
        find(r, places.pages_chunk,
             places.pages_offset + static_cast<std::uint64_t>(me_) * p2p::kGpuPage, p2p::kGpuPage);
    if (how != How::here) return how;
  }
  return how;
}

void HostGroup::say(PlannedCall& call, DeviceWord what) noexcept {
  area_.said().store(GroupArea::device_word(call.number, what), std::memory_order_release);
  call.device->step = what == DeviceWord::wrote ? DeviceStep::wrote : DeviceStep::said;
  ring_all();
}

DeviceWord HostGroup::all_said(const PlannedCall& call) const noexcept {
  auto least = DeviceWord::yes;
  bool later = false;
  for (const Member& member : members_) {
    const auto said =
        GroupArea::said_of(member.area.said().load(std::memory_order_acquire), call.number);
    if (said == DeviceWord::no) return said;
    // A member that knows better goes by host memory at once.
    const std::uint64_t word = member.area.call_word(call.number).load(std::memory_order_acquire);
    const auto mark = static_cast<std::uint32_t>(word);
    later = later || said == DeviceWord::later ||
            (GroupArea::is_of(word, call.number) &&
             (mark == call.mark || mark == GroupArea::mark_for_now(call.mark)));
    least = std::min(least, said);
  }
  return later ? DeviceWord::later : least;
}

void HostGroup::refuse_on_device(PlannedCall& call, DeviceWord said) {
  for (int r = 0; r < size(); ++r)
    if (GroupArea::said_of(members_[static_cast<std::size_t>(r)].area.said().load(), call.number) >
            DeviceWord::yes &&
        r != me_)
      device_->refuse(DeviceGroup::Why::another_rank, [&] {
        return fmt::format("rank {} refuses, see its log", ranks_[static_cast<std::size_t>(r)]);
      });
  if (said == DeviceWord::no) device_->learn(call.device->gpus, false);
  fall_back(call, said == DeviceWord::no);
}

void HostGroup::begin_to_prove(PlannedCall& call) {
  DeviceCall& device = *call.device;
  const std::optional<bool> known = device_->known(device.gpus);
  if (known) return say(call, *known ? DeviceWord::yes : DeviceWord::no);
  if (!device_->poll_pages()) {
    device_->refuse(DeviceGroup::Why::earlier_proof,
                    [] { return std::string("copies of an earlier proof go on"); });
    return say(call, DeviceWord::later);
  }
  device.nonce = p2p::make_nonce();
  device_->begin_pages(device, device.nonce);
  device.step = DeviceStep::writing;
}

bool HostGroup::step_on_device(PlannedCall& call) {
  if (failed()) return false;
  DeviceCall& device = *call.device;
  // The outcome of copies of pages: nullopt while they go on; false if they refuse the call, for
  // which `why` and `fault` tell that they hold something else than `nonces`.
  const auto pages = [&](std::span<const std::uint64_t> nonces, DeviceGroup::Why why,
                         const char* fault) -> std::optional<bool> {
    const std::optional<Status> outcome = device_->poll_pages();
    if (!outcome) return std::nullopt;
    if (!outcome->ok()) {
      device_->refuse(DeviceGroup::Why::failed, [&] { return outcome->detail().message; });
      return say(call, DeviceWord::later), false;
    }
    if (!nonces.empty() && !device_->hold(nonces)) {
      device_->refuse(why, [&] { return std::string(fault); });
      return say(call, DeviceWord::no), false;
    }
    return true;
  };
  switch (device.step) {
    case DeviceStep::offered:
      switch (gather_offers(call)) {
        case Offers::missing:
        case Offers::refused:
          return false;
        case Offers::all:
          break;
      }
      switch (find_on_device(call)) {
        case DeviceGroup::Found::How::here:
          begin_to_prove(call);
          return true;
        case DeviceGroup::Found::How::unknown:
          local_.progress.help();  // the descriptor is under way
          return false;
        case DeviceGroup::Found::How::later:
          return say(call, DeviceWord::later), true;
        case DeviceGroup::Found::How::never:
          return say(call, DeviceWord::no), true;
      }
      return false;
    case DeviceStep::writing:
      if (const auto written = pages({}, {}, nullptr); !written)
        return false;
      else if (*written) {
        device_->begin_reading(device.pages);
        device.step = DeviceStep::proving;
      }
      return true;
    case DeviceStep::proving: {
      const std::vector<std::uint64_t> nonces(ranks_.size(), device.nonce);
      const auto good =
          pages(nonces, DeviceGroup::Why::lost, "what this rank's GPU writes to another's is lost");
      if (good == true) {
        area_.nonce(call.number).store(device.nonce, std::memory_order_relaxed);
        say(call, DeviceWord::wrote);
      }
      return good.has_value();
    }
    case DeviceStep::wrote: {
      const DeviceWord all = all_said(call);
      if (all > DeviceWord::yes) return refuse_on_device(call, all), false;
      if (all < DeviceWord::wrote) return false;
      std::vector<Tensor> own;
      for (int r = 0; r < size(); ++r) own.push_back(device_->own_page(device, r));
      device_->begin_reading(own);
      device.step = DeviceStep::reading;
      return true;
    }
    case DeviceStep::reading: {
      std::vector<std::uint64_t> nonces;
      for (const Member& member : members_)
        nonces.push_back(member.area.nonce(call.number).load(std::memory_order_relaxed));
      const auto good = pages(nonces, DeviceGroup::Why::unseen,
                              "this rank's GPU does not see what another's has written");
      if (good == true) say(call, DeviceWord::yes);
      return good.has_value();
    }
    case DeviceStep::said: {
      const DeviceWord all = all_said(call);
      if (all > DeviceWord::yes) return refuse_on_device(call, all), false;
      // A member that has given up may use its tensors otherwise.
      if (all != DeviceWord::yes || is_given_up(call.number) || failed()) return false;
      device_->learn(device.gpus, true);
      if (call.streams.prepares != nullptr) return begin_runs(call), false;
      begin_on_device(call);
      return true;
    }
    case DeviceStep::working: {
      const std::optional<Status> outcome = device.poll();
      if (!outcome) return false;
      outcome->or_throw();
      device.held.clear();
      say_done(call);
      return false;
    }
  }
  return false;
}

void HostGroup::begin_on_device(PlannedCall& call) {
  device_->begin(call.task, *call.device);
  count_device_copies(device_->begun());
  call.device->step = DeviceStep::working;
}

}  // namespace weft::detail
