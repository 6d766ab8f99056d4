// Plans that streams run: what the progress thread sees to, and how runs end.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/fail.hpp"
#include "runtime/collective/collective_group.hpp"
#include "runtime/collective/collective_table.hpp"

namespace weft::detail {
namespace {

constexpr std::chrono::milliseconds kLeavingIsTold{100};

}  // namespace

void CollectiveGroup::watch_streams(const std::shared_ptr<StreamRuns>& runs) {
  {
    const std::lock_guard lock(streams_.mutex);
    streams_.all.push_back(runs);
  }
  table_.watch_streams();
}

bool CollectiveGroup::serve_streams() noexcept {
  const std::lock_guard lock(streams_.mutex);
  bool soon = false;
  std::erase_if(streams_.all, [&](const std::shared_ptr<StreamRuns>& runs) {
    const bool goes_on = serve(*runs);
    soon = goes_on || soon;
    return !goes_on && runs->is_left;
  });
  return soon;
}

bool CollectiveGroup::serve(StreamRuns& runs) noexcept {
  p2p::cuda::StreamMeeting& meeting = *runs.meeting;
  if (!meeting.is_ended()) {
    if (failed()) {
      meeting.end(failure().code(), true);
    } else if (const Code code = meeting.ended_with(); code != Code::ok) {
      meeting.end(code, true);
    } else {
      const Status why = why_to_end(runs);
      if (why.ok()) return meeting.has_begun();
      tell_failure(why);
      fail(why);
      meeting.end(why.code(), true);
    }
  }
  meeting.release();
  if (!failed() && !runs.is_left) {
    if (!runs.ended_at) runs.ended_at = Clock::now();
    if (!meeting.is_misused() && Clock::now() - *runs.ended_at < kReasonComes) return true;
    const Status why = ended_elsewhere(meeting.ended_with());
    tell_failure(why);
    fail(why);
  }
  if (meeting.has_begun() || toucher_of(runs) >= 0) return true;
  runs.held.clear();
  return false;
}

Status CollectiveGroup::why_to_end(StreamRuns& runs) noexcept {
  const p2p::cuda::StreamMeeting& meeting = *runs.meeting;
  if (!meeting.has_begun()) return {};
  const auto now = Clock::now();
  if (const std::uint64_t begun = meeting.begun(); std::exchange(runs.seen, begun) != begun)
    runs.since = now;
  try {
    std::vector<int> late;
    for (const std::size_t member : meeting.awaited()) {
      late.push_back(ranks_[member]);
      if (mesh_.peer(late.back()).gone())
        if (Status gone = mesh_.peer_status(late.back()); !gone.ok()) return gone;
      // A rank that leaves says so soon.
      if (meeting.ended_with(member) == Code::closed && now - runs.since > kLeavingIsTold)
        return gone_from(runs, late.back());
    }
    if (now - runs.since < runs.limit) return {};
    return weft::refuse(Code::timeout, [&] {
      return ErrorDetail{
          .operation = runs.text,
          .message = late.empty()
                         ? fmt::format("rank {}'s GPU has not done its part of a run", local_.rank)
                         : fmt::format("rank {}'s stream waited for rank{} {}", local_.rank,
                                       late.size() == 1 ? "" : "s", named(late)),
          .hint =
              "do all ranks run the same plans in the same order? a longer deadline: start() "
              "takes one, or WEFT_TIMEOUT",
          .rank = local_.rank,
          .peer = late.empty() ? local_.rank : late.front()};
    });
  } catch (const std::bad_alloc&) {
    return {};  // looked at again soon
  }
}

Status CollectiveGroup::gone_from(const StreamRuns& runs, int rank) const noexcept {
  return weft::refuse(Code::closed, [&] {
    return ErrorDetail{
        .operation = runs.text,
        .message = fmt::format("rank {} has destroyed the plan, or left the group, and makes no "
                               "further run of it",
                               rank),
        .hint = "all ranks must run the same plans in the same order",
        .rank = local_.rank,
        .peer = rank};
  });
}

int CollectiveGroup::toucher_of(const StreamRuns& runs) const noexcept {
  const p2p::cuda::StreamMeeting& meeting = *runs.meeting;
  // When this rank closed it, all had said that they were done with this rank's tensors.
  if (meeting.is_closed()) return -1;
  for (std::size_t member = 0; member < ranks_.size(); ++member)
    if (meeting.works(member) && !mesh_.peer(ranks_[member]).silent.load())
      return static_cast<int>(member);
  return -1;
}

int CollectiveGroup::stream_toucher() noexcept {
  const std::lock_guard lock(streams_.mutex);
  for (const auto& runs : streams_.all) {
    p2p::cuda::StreamMeeting& meeting = *runs->meeting;
    if (!meeting.is_ended()) {
      if (!failed()) continue;
      // The progress thread has not come to it. From here on no run touches what is not lent.
      meeting.end(failure().code(), true);
    }
    if (meeting.has_begun()) return me_;
    if (const int member = toucher_of(*runs); member >= 0) return member;
  }
  return -1;
}

bool CollectiveGroup::streams_work() noexcept {
  const std::lock_guard lock(streams_.mutex);
  bool works = false;
  for (const auto& runs : streams_.all) {
    runs->meeting->release();
    works = runs->meeting->has_begun() || works;
  }
  return works;
}

void CollectiveGroup::end_streams(const StreamRuns* of, const char* what) noexcept {
  std::string cancelled;
  {
    const std::lock_guard lock(streams_.mutex);
    std::erase_if(streams_.all, [&](const std::shared_ptr<StreamRuns>& runs) {
      if (of != nullptr && runs.get() != of) return false;
      runs->is_left = true;
      if (runs->meeting->close()) cancelled = runs->text;
      return cancelled.empty() && !serve(*runs);
    });
  }
  if (cancelled.empty()) return;
  const Status why = weft::refuse(Code::cancelled, [&] {
    return ErrorDetail{.operation = cancelled,
                       .message = fmt::format("rank {} has {} while a stream was to run {}",
                                              local_.rank, what, cancelled),
                       .hint = "wait for the stream before that",
                       .rank = local_.rank,
                       .peer = local_.rank};
  });
  if (!failed()) tell_failure(why);
  fail(why);
  local_.progress.turn_soon();
}

}  // namespace weft::detail
