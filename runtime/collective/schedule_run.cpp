#include "runtime/collective/schedule_run.hpp"

#include <algorithm>
#include <cstring>

namespace weft::detail {

using What = Step::What;
using Place = Step::Place;

ScheduleRun::ScheduleRun(Schedule schedule, ScheduleTensors tensors)
    : schedule_(std::move(schedule)),
      tensors_(std::move(tensors)),
      at_(schedule_.moves().size()),
      ends_(schedule_.peers().size()),
      channel_made_(index(schedule_.channels())),
      channel_works_(index(schedule_.channels())) {
  for (int channel = 0; channel < schedule_.channels(); ++channel) {
    std::uint32_t at = 0;
    for (const std::uint32_t move : schedule_.channel(channel)) at_[move] = at++;
  }
  restart();
}

void ScheduleRun::restart() noexcept {
  for (std::size_t place = 0; place < ends_.size(); ++place) {
    const int peer = schedule_.peers()[place];
    ends_[place] = {.sends = schedule_.sends(peer), .takes = schedule_.takes(peer)};
  }
  std::fill(channel_made_.begin(), channel_made_.end(), 0);
  for (GpuWork& work : channel_works_) work.pass();
  made_ = 0;
}

std::size_t ScheduleRun::bytes(const Step& move) const noexcept {
  // A recv_reduce receives elements in the type used for arithmetic; a send sends them as they lie.
  const bool sum =
      move.what == What::recv_reduce ? true : move.what == What::send && move.place == Place::sum;
  return static_cast<std::size_t>(move.region.count) *
         (sum ? tensors_.sum_element : tensors_.element);
}

std::uint64_t ScheduleRun::bytes(std::span<const std::uint32_t> moves) const noexcept {
  std::uint64_t total = 0;
  for (const std::uint32_t move : moves) total += bytes(schedule_.moves()[move]);
  return total;
}

std::size_t ScheduleRun::largest(std::span<const std::uint32_t> moves) const noexcept {
  std::size_t most = 0;
  for (const std::uint32_t move : moves) {
    const std::size_t total = bytes(schedule_.moves()[move]);
    const bool headed = move == moves.front() && total <= Piece::kMostHeaded;
    most = std::max(most, headed ? Piece::kHead + total : std::min(total, Piece::kMost));
  }
  return most;
}

const Tensor& ScheduleRun::tensor(Place place) const noexcept {
  return place == Place::in ? tensors_.in : place == Place::sum ? tensors_.sum : tensors_.out;
}

std::size_t ScheduleRun::offset(const Step& move, Place place) const noexcept {
  const std::int64_t before = place == Place::in    ? tensors_.in_first
                              : place == Place::out ? tensors_.out_first
                                                    : 0;
  const std::int64_t first = move.region.first - before;
  return static_cast<std::size_t>(first) *
         (place == Place::sum ? tensors_.sum_element : tensors_.element);
}

std::byte* ScheduleRun::data(const Step& move, Place place) const noexcept {
  return move.region.count == 0 ? nullptr : tensor(place).data() + offset(move, place);
}

bool ScheduleRun::is_next(std::uint32_t move) const noexcept {
  return channel_made_[index(schedule_.moves()[move].channel)] == at_[move];
}

void ScheduleRun::pass(const Step& move) noexcept {
  ++channel_made_[index(move.channel)];
  ++made_;
}

bool ScheduleRun::all_out(Links links) const noexcept {
  return std::ranges::all_of(schedule_.peers(), [&](int peer) {
    const auto& link = links[index(peer)];
    return link == nullptr || link->quiet();
  });
}

bool ScheduleRun::send_some(SlotLink& link, End& end) noexcept {
  const auto moves = end.sends;
  bool moved = false;
  while (end.sent < moves.size() && is_next(moves[end.sent]) && link.has_room()) {
    const Step& move = schedule_.moves()[moves[end.sent]];
    const std::size_t total = bytes(move);
    // A message too large to be copied behind its head follows the head in a put of its own.
    const bool alone = !end.greeted && total > Piece::kMostHeaded;
    const std::size_t some = alone ? 0 : std::min(total - end.sent_bytes, Piece::kMost);
    const SlotLink::Source source{&tensor(move.place), offset(move, move.place) + end.sent_bytes};
    link.put(source, some, !end.greeted, alone);
    end.greeted = true;
    end.sent_bytes += some;
    moved = true;
    if (alone || end.sent_bytes < total) continue;
    end.sent_bytes = 0;
    ++end.sent;
    pass(move);
  }
  return moved;
}

void ScheduleRun::take(const Step& move, std::size_t first, const std::byte* from,
                       std::size_t bytes, Reducer* reducer) noexcept {
  if (move.what == What::recv) {
    std::memcpy(data(move, move.place) + first, from, bytes);
    return;
  }
  const std::size_t at = first / tensors_.sum_element * tensors_.sum_element;
  std::byte* const sum = data(move, Place::sum) + at;
  const std::byte* const own = data(move, move.place) + at;
  reducer->join(sum, move.theirs_first ? from : own, move.theirs_first ? own : from,
                bytes / tensors_.sum_element);
}

bool ScheduleRun::take_by_gpu(const Step& move, const std::byte* from, std::size_t bytes,
                              SlotLink& link, End& end, SlotGpu& gpu) noexcept {
  if (!end.work.has_begun()) {
    const Tensor& arrival = link.held_tensor();
    std::byte* const to = data(move, move.what == What::recv ? move.place : Place::sum);
    const std::byte* const own = data(move, move.place) + end.taken_bytes;
    if (move.what == What::recv)
      gpu.copy(end.work, to + end.taken_bytes, from, bytes, arrival);
    else
      gpu.join(end.work, to + end.taken_bytes, move.theirs_first ? from : own,
               move.theirs_first ? own : from, bytes / tensors_.sum_element, arrival);
  }
  if (!end.work.has_begun() || !gpu.has_ended(end.work)) return false;
  end.work.pass();
  return true;
}

bool ScheduleRun::take_some(SlotLink& link, End& end, Links links, Reducer* reducer,
                            SlotGpu* gpu) noexcept {
  const auto moves = end.takes;
  bool moved = false;
  while (end.taken < moves.size() && is_next(moves[end.taken])) {
    const Step& move = schedule_.moves()[moves[end.taken]];
    if (move.overwrites && !all_out(links)) break;
    const std::size_t total = bytes(move);
    const bool alone = !end.was_greeted && total > Piece::kMostHeaded;
    const std::size_t some = alone ? 0 : std::min(total - end.taken_bytes, Piece::kMost);
    const std::byte* from = link.hold(!end.was_greeted, some);
    if (from == nullptr) break;
    if (some > 0 && gpu == nullptr)
      take(move, end.taken_bytes, from, some, reducer);
    else if (some > 0 && !take_by_gpu(move, from, some, link, end, *gpu))
      break;
    link.release(gpu == nullptr && move.what == What::recv ? some : 0);
    end.was_greeted = true;
    end.taken_bytes += some;
    moved = true;
    if (alone || end.taken_bytes < total) continue;
    end.taken_bytes = 0;
    ++end.taken;
    pass(move);
  }
  return moved;
}

bool ScheduleRun::make_by_gpu(const Step& move, GpuWork& work, SlotGpu& gpu) noexcept {
  const auto count = static_cast<std::size_t>(move.region.count);
  std::byte* const sum = data(move, Place::sum);
  if (move.what == What::finish && data(move, Place::out) == sum) return true;
  if (!work.has_begun() && move.what == What::upcast)
    gpu.widen(work, sum, data(move, Place::in), count);
  else if (!work.has_begun())
    gpu.finish(work, data(move, Place::out), sum, count);
  if (!work.has_begun() || !gpu.has_ended(work)) return false;
  work.pass();
  return true;
}

bool ScheduleRun::make_own(int channel, Reducer* reducer, SlotGpu* gpu) noexcept {
  const auto moves = schedule_.channel(channel);
  bool moved = false;
  for (std::uint32_t& made = channel_made_[index(channel)]; made < moves.size();) {
    const Step& move = schedule_.moves()[moves[made]];
    if (move.what != What::upcast && move.what != What::finish) break;
    if (gpu != nullptr) {
      if (!make_by_gpu(move, channel_works_[index(channel)], *gpu)) break;
    } else if (move.what == What::upcast)
      reducer->widen(data(move, Place::sum), data(move, Place::in),
                     static_cast<std::size_t>(move.region.count));
    else
      reducer->finish(data(move, Place::out), data(move, Place::sum),
                      static_cast<std::size_t>(move.region.count), index(schedule_.ranks()));
    pass(move);
    moved = true;
  }
  return moved;
}

Status ScheduleRun::step(Links links, Reducer* reducer, SlotGpu* gpu) noexcept {
  bool moved = true;
  while (moved) {
    moved = false;
    for (int channel = 0; channel < schedule_.channels(); ++channel)
      moved |= make_own(channel, reducer, gpu);
    for (std::size_t place = 0; place < ends_.size(); ++place) {
      SlotLink* const link = links[index(schedule_.peers()[place])].get();
      if (link == nullptr) continue;
      moved |= send_some(*link, ends_[place]);
      moved |= take_some(*link, ends_[place], links, reducer, gpu);
      if (!link->status().ok()) return link->status();
      if (link->unexpected()) return {};
    }
  }
  return {};
}

}  // namespace weft::detail
