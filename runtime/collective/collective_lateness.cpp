// Messages between members of a group while they wait, and how a timeout names those that have not
// entered.
#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/fail.hpp"
#include "runtime/collective/collective_group.hpp"
#include "runtime/collective/collective_table.hpp"

namespace weft::detail {

void CollectiveGroup::ask(std::size_t most, std::size_t nth) noexcept {
  if (queued_ == 0) return;
  const PlannedCall& call = *queue_[0];
  try {
    const std::vector<int> missed = absent(call);
    CollectiveMessage message{.what = CollectiveMessage::What::waits, .group = id_};
    message.number = call.number;
    message.mark = call.mark;
    message.signature = call.task.signature;
    list_absent(message, missed);
    news_.set_missed(call.number, missed);
    std::vector<int> ranks;
    const std::vector<int> late = awaited(call);
    for (std::size_t i = 0; i < std::min(most, late.size()); ++i) {
      const int member = late[(nth * most + i) % late.size()];
      ranks.push_back(ranks_[static_cast<std::size_t>(member)]);
      news_.ask(member, call.number);
    }
    table_.tell(ranks, message);
  } catch (const std::bad_alloc&) {
    return;  // the next round tells them
  }
}

void CollectiveGroup::list_absent(CollectiveMessage& message,
                                  std::span<const int> members) const noexcept {
  for (std::size_t i = 0; i < std::min(members.size(), message.absent.size()); ++i)
    message.absent[i] = ranks_[static_cast<std::size_t>(members[i])];
}

std::optional<CollectiveMessage> CollectiveGroup::answer(
    const CollectiveMessage& waits) const noexcept {
  if (waits.number > numbered()) return {};
  CollectiveMessage answer{.what = CollectiveMessage::What::entered, .group = id_};
  answer.number = waits.number;
  try {
    list_absent(answer, news_.missed(waits.number));
  } catch (const std::bad_alloc&) {
    // The answer still says that this rank has entered.
  }
  return answer;
}

void CollectiveGroup::hear_entered(int rank, const CollectiveMessage& message) noexcept {
  const auto place_of = [this](int of) {
    return static_cast<int>(std::ranges::find(ranks_, of) - ranks_.begin());
  };
  const int member = place_of(rank);
  if (member == size()) return;
  try {
    std::vector<int> absent;
    for (const int missed : message.absent)
      if (const int place = place_of(missed); place != size()) absent.push_back(place);
    news_.hear(member, message.number, std::move(absent));
  } catch (const std::bad_alloc&) {
    return;  // the peer is asked again
  }
}

std::vector<int> CollectiveGroup::absent(const PlannedCall& call) const {
  std::vector<int> absent;
  const auto add = [&](int member) {
    if (member != me_ && !has_entered(call, member)) absent.push_back(member);
  };
  for (const int member : awaited(call)) {
    if (news_.was_asked(member, call.number)) add(member);
    for (const int missed : news_.missed_by(member, call.number)) add(missed);
  }
  std::ranges::sort(absent);
  absent.erase(std::unique(absent.begin(), absent.end()), absent.end());
  return absent;
}

std::string CollectiveGroup::lateness(const PlannedCall& call, std::vector<int>& ranks) const {
  const auto ranks_of = [this](std::vector<int> places) {
    for (int& place : places) place = ranks_[static_cast<std::size_t>(place)];
    return places;
  };
  const auto text = [&](std::string_view of_one, std::string_view of_several) {
    const bool one = ranks.size() == 1;
    return fmt::format("rank{} {} {}", one ? "" : "s", named(ranks), one ? of_one : of_several);
  };
  const std::vector<int> missing = sees_calls() ? std::vector<int>() : absent(call);
  const std::vector<int> late = awaited(call);
  ranks = ranks_of(missing.empty() ? late : missing);
  if (ranks.empty() && call.on_device)
    return fmt::format("GPU {} has not done this rank's part yet", call.device->gpu->ordinal());
  if (ranks.empty()) return "this rank has not done its part yet";
  if (!missing.empty()) return text("has not entered it", "have not entered it");
  const bool all_in = !sees_calls() && std::ranges::all_of(late, [&](int member) {
    return has_entered(call, member);
  });
  return all_in ? text("has entered it, but its part is late",
                       "have entered it, but their parts are late")
                : text("has not done its part", "have not done theirs");
}

Status CollectiveGroup::late(const PlannedCall& call) const noexcept {
  if (brings()) return late_gpu(call);
  return weft::refuse(Code::timeout, [&] {
    // Between hosts a later call can't say whom it waits for before it is the oldest.
    const PlannedCall& first = sees_calls() || queued_ == 0 ? call : *queue_[0];
    std::vector<int> ranks;
    const std::string why = lateness(first, ranks);
    const int rank = ranks.empty() ? -1 : ranks.front();
    return ErrorDetail{.code = Code::timeout,
                       .operation = call.task.signature.text(),
                       .message = fmt::format("call {} of the group: {}", first.number, why),
                       .hint = "look at what that rank is doing; a longer deadline: WEFT_TIMEOUT",
                       .rank = local_.rank,
                       .peer = rank,
                       .host = rank < 0 ? std::string() : mesh_.peer(rank).host()};
  });
}

stats::WaitAbout CollectiveGroup::about(const PlannedCall& call, std::uint64_t since_ns,
                                        bool has_asked,
                                        stats::WaitDetails& details) const noexcept {
  stats::WaitAbout about{.operation = stats::Operation::collective,
                         .slot = row_.number,
                         .sequence = call.number,
                         .since_ns = since_ns,
                         .details = &details};
  call.task.signature.write(details.chars);
  details.bytes = std::max(call.task.in_bytes, call.task.out_bytes);
  if (brings()) return about;
  try {
    const PlannedCall& first = sees_calls() || queued_ == 0 ? call : *queue_[0];
    std::vector<int>& members = row_.awaited;
    members.clear();
    if (has_asked) members = absent(first);
    if (members.empty()) add_awaited(first, members);
    for (const int member : members) {
      const int rank = ranks_[static_cast<std::size_t>(member)];
      if (about.peer < 0) about.peer = rank;
      if (!details.await(static_cast<std::uint64_t>(rank)) && about.more < 0xffff) ++about.more;
    }
  } catch (const std::bad_alloc&) {
    return about;  // without whom it waits for
  }
  return about;
}

void CollectiveGroup::show_ended(const PlannedCall& call) noexcept {
  const std::size_t bytes = std::max(call.task.in_bytes, call.task.out_bytes);
  row_.edge.counters().transfers.add(1);
  row_.edge.counters().bytes_moved.add(bytes);
  if (!local_.recorder.records_data()) [[likely]]
    return;
  const int root = call.task.signature.root;
  local_.recorder.data({.event = stats::Event::collective,
                        .peer = root < 0 ? -1 : ranks_[static_cast<std::size_t>(root)],
                        .slot = row_.number,
                        .value = call.number,
                        .bytes = bytes,
                        .started_ns = call.started_ns,
                        .thread = static_cast<std::uint64_t>(call.task.kind()) |
                                  static_cast<std::uint64_t>(me_) << 8U});
}

std::string group_text(std::span<const int> ranks, std::uint64_t nth) {
  std::string text = nth == 0 ? "group of ranks " : fmt::format("group {} of ranks ", nth + 1);
  constexpr std::size_t kMost = 150;
  for (std::size_t i = 0; i < ranks.size() && text.size() < kMost;) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += fmt::format("{}{}", i == 0 ? "" : ",", ranks[i]);
    if (last > i) text += fmt::format("-{}", ranks[last]);
    i = last + 1;
  }
  // Groups of many ranks may begin alike.
  if (text.size() >= kMost) text += fmt::format(",... ({} in all)", ranks.size());
  return text;
}

void CollectiveGroup::hear(int rank, const CollectiveMessage& waits) noexcept {
  hear_entered(rank, waits);
  const auto place = std::ranges::find(ranks_, rank) - ranks_.begin();
  const Heard heard{static_cast<int>(place), waits.number, waits.mark, waits.signature};
  if (heard.from == size()) return;
  const std::lock_guard lock(heard_mutex_);
  const auto found = std::ranges::find(heard_, heard.from, &Heard::from);
  try {
    found == heard_.end() ? heard_.push_back(heard) : void(*found = heard);
  } catch (const std::bad_alloc&) {
    return;  // the peer repeats its message
  }
  has_heard_.store(true);
}

void CollectiveGroup::hear_closed(int rank) noexcept {
  const auto place = static_cast<int>(std::ranges::find(ranks_, rank) - ranks_.begin());
  if (place == size()) return;
  const std::lock_guard lock(heard_mutex_);
  try {
    if (std::ranges::find(closed_by_, place) == closed_by_.end()) closed_by_.push_back(place);
  } catch (const std::bad_alloc&) {
    return;  // this rank asks again
  }
  has_heard_.store(true);
}

void CollectiveGroup::check_closed() noexcept {
  int gone = -1;
  {
    const std::lock_guard lock(heard_mutex_);
    if (failed() || queued_ == 0) return;
    // Later calls need no more yet, but learn what they don't wait for.
    for (const int member : closed_by_)
      for (const auto& call : under_way())
        if (needs_more(*call, member) && call == queue_[0]) gone = member;
  }
  if (gone < 0) return;
  const int rank = ranks_[static_cast<std::size_t>(gone)];
  const Status why = weft::refuse(Code::closed, [&] {
    return ErrorDetail{
        .operation = name(queue_[0]->task.kind()),
        .message = fmt::format("rank {} has closed the group and makes no further call", rank),
        .hint = "all ranks of a group must call the same operations in the same order",
        .peer = rank,
        .host = mesh_.peer(rank).host()};
  });
  tell_failure(why);
  fail(why);
}

// A call that this rank has not made yet is compared later. A call older than kCallsKept is not
// compared.
void CollectiveGroup::compare_heard() noexcept {
  Heard other;
  {
    const std::lock_guard lock(heard_mutex_);
    std::erase_if(heard_, [&](const Heard& heard) {
      if (heard.number > numbered()) return false;
      const bool is_known = heard.number > 0 && numbered() - heard.number < kCallsKept;
      if (is_known && (called(heard.number) != heard.signature ||
                       called_[heard.number % kCallsKept].mark != heard.mark))
        other = heard;
      return true;
    });
    keeps_heard_ = !heard_.empty() || !closed_by_.empty();
    has_heard_.store(false);
  }
  check_closed();
  if (other.from < 0) return;
  if (called(other.number) != other.signature)
    mismatch(other.number, other.from, other.signature);
  else
    mismatch_before(other.number, other.from);
}

}  // namespace weft::detail
