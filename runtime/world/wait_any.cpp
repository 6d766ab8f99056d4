// Waits for one of several handles.
#include <fmt/format.h>

#include <algorithm>

#include "base/fail.hpp"
#include "base/given_deadline.hpp"
#include "base/handle.hpp"
#include "p2p/message/operation.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "runtime/collective/collective_group.hpp"
#include "runtime/world/services.hpp"
#include "runtime/world/world_state.hpp"
#include "weft/collective.hpp"
#include "weft/message.hpp"

namespace weft {
namespace {

/// Number of awaited ends of which a timeout tells all, and number of those that it names at all.
constexpr std::size_t kMostTold = 4;
constexpr std::size_t kMostNamed = 32;

/// "slot "x" with rank 1", or "put into slot "x" with rank 1".
std::string name_of(const p2p::Awaited& one) {
  if (one.slot.empty()) return one.lack;
  const std::string slot = fmt::format("{}slot \"{}\"", one.is_put ? "put into " : "", one.slot);
  return one.peer < 0 ? slot : fmt::format("{} with rank {}", slot, one.peer);
}

/// The timeout status of wait_any(). `awaited` returns the end at an index, with its peer.
template <typename AwaitedAt>
ErrorDetail none_ready(int rank, std::size_t count, const AwaitedAt& awaited) {
  ErrorDetail detail{.code = Code::timeout,
                     .operation = "wait_any",
                     .message = fmt::format("none of {} became ready", count),
                     .hint = "are these ranks at the same step? a longer deadline: WEFT_TIMEOUT",
                     .rank = rank};
  for (std::size_t i = 0; i < count; ++i) {
    p2p::Awaited one = awaited(i);
    const char* const before = i == 0 ? ":" : ";";
    if (i < kMostTold && !one.slot.empty()) {
      detail.message +=
          fmt::format("{} {}slot \"{}\"", before, one.is_put ? "put into " : "", one.slot);
      if (one.sequence != 0) detail.message += fmt::format(", tensor {}", one.sequence);
      detail.message += fmt::format(": {}", one.lack);
    } else if (i < kMostNamed) {
      detail.message += fmt::format("{} {}", before, name_of(one));
    }
    if (detail.peer < 0 && one.peer >= 0) {
      detail.peer = one.peer;
      detail.host = std::move(one.host);
      detail.slot = std::move(one.slot);
      detail.sequence_expected = one.sequence;
      if (!one.is_put && one.sequence != 0) detail.sequence_seen = one.sequence - 1;
    }
    if (i >= kMostNamed && detail.peer >= 0) break;
  }
  if (count > kMostNamed) detail.message += fmt::format("; and {} more", count - kMostNamed);
  return detail;
}

ErrorDetail empty_set(int rank) {
  ErrorDetail detail =
      bad_argument("wait_any", "the set has no slot, request, reader, plan or message",
                   "give it at least one handle: nothing else could end this wait");
  detail.rank = rank;
  return detail;
}

/// How an operation is called in a timeout that has ended with `late`.
p2p::Awaited awaited_by(const Status& late) {
  if (late.code() != Code::timeout) return {.slot = "", .lack = "it has ended"};
  const ErrorDetail& detail = late.detail();
  return {.slot = "",
          .peer = detail.peer,
          .host = detail.host,
          .lack = fmt::format("{}: {}", detail.operation, detail.message)};
}

/// The ends of a wait_any as tools see them: slots by number, others by a text and their ranks.
class ShownEnds {
 public:
  explicit ShownEnds(stats::WaitDetails& details) noexcept : details_(details) {}

  void add_slot(std::uint64_t id) noexcept {
    if (id != 0 && !details_.await(id)) ++more_;
  }
  void add_rank(int rank) noexcept {
    if (rank >= 0) (void)details_.await(stats::kAwaitedRank | static_cast<std::uint64_t>(rank));
  }
  /// A text is shown whole or counted as one more.
  template <typename... Args>
  void add_text(fmt::format_string<Args...> format, Args&&... args) noexcept {
    const std::span<char> room =
        std::span(details_.chars).first(details_.chars.size() - 1).subspan(used_);
    const auto separator = fmt::format_to_n(room.data(), room.size(), "{}", used_ == 0 ? "" : ", ");
    const auto text = fmt::format_to_n(separator.out, room.size() - separator.size, format,
                                       std::forward<Args>(args)...);
    const std::size_t size = separator.size + text.size;
    if (size <= room.size())
      used_ += size;
    else
      ++more_;
    details_.chars[used_] = '\0';
  }
  std::uint16_t more() const noexcept {
    return static_cast<std::uint16_t>(std::min<std::size_t>(more_, 0xffff));
  }

 private:
  stats::WaitDetails& details_;
  std::size_t used_ = 0;
  std::size_t more_ = 0;
};

/// Names the members of a group, if they are so few that a wait has room for them.
void add_members(ShownEnds& shown, const detail::CollectiveGroup& group, int self) noexcept {
  if (group.ranks().size() > stats::kAwaited) return;
  for (const int rank : group.ranks())
    if (rank != self) shown.add_rank(rank);
}

/// How long a plan that wants a test goes without one.
constexpr std::chrono::milliseconds kTestEvery{1};

}  // namespace

Result<std::size_t> World::wait_any(const detail::AwaitedEnds& ends, Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "World", "wait_any");
  const p2p::LocalRank& local = state_->local;
  struct Ended {
    Request& request;
    bool ready() const noexcept { return request.test(); }
    bool broken() const noexcept { return false; }
    void before_wait() const noexcept {}
    p2p::Awaited awaited() const {
      detail::PutWriter* const writer = request.living();
      if (writer == nullptr) return {.slot = "", .lack = "the request has ended"};
      return writer->awaited_put(request.ticket_);
    }
    void show(ShownEnds& shown) const noexcept {
      detail::PutWriter* const writer = request.living();
      if (writer != nullptr) shown.add_slot(writer->id());
    }
  };
  struct Held {
    detail::Condition& condition;
    bool ready() const noexcept { return condition.holds(); }
    bool broken() const noexcept { return false; }
    void before_wait() const noexcept {}
    p2p::Awaited awaited() const { return {.slot = "", .lack = "its condition"}; }
    void show(ShownEnds&) const noexcept {}
  };
  // Waiting threads progress plans and messages, and tell by their stages what has ended. A test
  // takes the operation back from these threads, and wakes them.
  p2p::SilentWork untested(state_->local.waiter);
  auto next_test = Clock::time_point::min();
  bool tests = true;
  struct Planned {
    Plan& plan;
    p2p::SilentWork& untested;
    bool tests;
    int self;
    bool ready() const noexcept {
      if (!plan.call_->under_way()) return true;
      if (!plan.group_->wants_test(*plan.call_)) return false;
      untested.set(true);
      return tests && plan.test();
    }
    bool broken() const noexcept { return false; }
    void before_wait() const noexcept {}
    p2p::Awaited awaited() const { return awaited_by(plan.wait(Deadline::at({}))); }
    void show(ShownEnds& shown) const noexcept {
      std::array<char, 64> call{};
      plan.call_->task.signature.write(call);
      shown.add_text("{}, call {}", call.data(), plan.call_->number);
      add_members(shown, *plan.group_, self);
    }
  };
  struct Message {
    MessageRequest& message;
    bool ready() const noexcept {
      return message.operation_ == nullptr ||
             message.operation_->stage == detail::MessageOperation::Stage::ended;
    }
    bool broken() const noexcept { return false; }
    void before_wait() const noexcept {}
    p2p::Awaited awaited() const { return awaited_by(message.wait(Deadline::at({})).status()); }
    void show(ShownEnds& shown) const noexcept {
      using Stage = detail::MessageOperation::Stage;
      const detail::MessageOperation* const one = message.operation_;
      if (one == nullptr) return;
      const Stage stage = one->stage;
      const char* const way =
          stage == Stage::queued || stage == Stage::offered ? "send to" : "recv from";
      if (one->peer < 0)
        shown.add_text("{} any rank, tag {}", way, one->tag.value);
      else
        shown.add_text("{} rank {}, tag {}", way, one->peer, one->tag.value);
      shown.add_rank(one->peer);
    }
  };
  const WaitSet& set = ends.set;
  const std::size_t first_request = set.slots.size();
  const std::size_t first_reader = first_request + set.requests.size();
  const std::size_t first_plan = first_reader + set.readers.size();
  const std::size_t first_message = first_plan + set.plans.size();
  const std::size_t first_condition = first_message + set.messages.size();
  const std::size_t all = first_condition + ends.conditions.size();
  const auto with_end = [&](std::size_t i, const auto& act) {
    if (i < first_request) return act(*set.slots[i]->state_);
    if (i < first_reader) return act(Ended{*set.requests[i - first_request]});
    if (i < first_plan) return act(*set.readers[i - first_reader]->state_);
    if (i < first_message)
      return act(Planned{*set.plans[i - first_plan], untested, tests, local.rank});
    if (i < first_condition) return act(Message{*set.messages[i - first_message]});
    return act(Held{*ends.conditions[i - first_condition]});
  };
  // Starts where the last call stopped, so that a handle that is always ready does not hide the
  // others.
  const std::size_t first = state_->next_any.load(std::memory_order_relaxed);
  const auto first_that = [&](const auto& what) {
    for (std::size_t i = 0; i < all; ++i)
      if (const std::size_t at = (first + i) % all; with_end(at, what)) return at;
    return all;
  };
  std::size_t found = all;
  const auto ready = [&] {
    if (!set.plans.empty()) {
      const auto now = Clock::now();
      tests = now >= next_test;
      if (tests) next_test = now + kTestEvery;
    }
    found = first_that([](auto&& end) { return end.ready(); });
    return found < all || (ends.woken && ends.woken());
  };
  std::size_t lost = all;
  const auto broken = [&] {
    lost = first_that([](auto&& end) { return end.broken(); });
    return lost < all;
  };
  // A handle that is ready must not keep the others from going on.
  if (!set.plans.empty() || !set.messages.empty()) {
    local.waiter.poll_and_progress();
    const auto goes_on = [](const MessageRequest* message) {
      return message->operation_ != nullptr &&
             message->operation_->stage != detail::MessageOperation::Stage::ended;
    };
    // One test progresses all messages of the world.
    const auto one = std::ranges::find_if(set.messages, goes_on);
    if (one != set.messages.end()) (void)(*one)->test();
  }
  if (!ready())
    for (std::size_t i = 0; i < all; ++i) with_end(i, [](auto&& end) { end.before_wait(); });
  stats::WaitDetailsRoom details;
  const p2p::WaitEnd end = local.waiter.wait(ready, broken, deadline, [&] {
    stats::WaitAbout about = ends.about;
    if (about.operation == stats::Operation::step) return about;
    stats::WaitDetails& made = details.make();
    about.details = &made;
    ShownEnds shown(made);
    for (std::size_t i = 0; i < first_condition; ++i)
      with_end(i, [&](auto&& one) {
        if constexpr (requires { one.show(shown); })
          one.show(shown);
        else
          shown.add_slot(one.id());
      });
    about.more = shown.more();
    return about;
  });
  if (end == p2p::WaitEnd::timeout)
    return hinted_for(deadline, refuse(Code::timeout, [&] {
                        return none_ready(local.rank, first_condition, [&](std::size_t i) {
                          return with_end(i,
                                          [](auto&& one) { return p2p::Awaited(one.awaited()); });
                        });
                      }));
  if (end == p2p::WaitEnd::broken) found = lost;
  if (found < all) state_->next_any.store(found + 1, std::memory_order_relaxed);
  return found;
}

Status World::check(const WaitSet& set) const noexcept {
  const auto check_all = [this](const auto& handles, const char* what, auto is_empty,
                                auto orphan) -> Status {
    for (std::size_t i = 0; i < handles.size(); ++i) {
      if (handles[i] == nullptr || is_empty(*handles[i]))
        return refuse(Code::bad_argument, [&] {
          ErrorDetail detail = bad_argument("wait_any", fmt::format("{} {} is empty", what, i),
                                            "give it handles that World has made");
          detail.rank = state_->rank;
          return detail;
        });
      if (Status status = orphan(*handles[i]); !status.ok()) return status;
    }
    return {};
  };
  const auto has_no_state = [](const auto& handle) { return handle.state_ == nullptr; };
  const auto orphan = [](const auto& handle) -> Status {
    return handle.state_->over() ? handle.state_->refusal("wait_any") : Status();
  };
  if (Status status = check_all(set.slots, "slot", has_no_state, orphan); !status.ok())
    return status;
  if (Status status = check_all(set.readers, "reader", has_no_state, orphan); !status.ok())
    return status;
  const auto has_no_call = [](const Plan& plan) { return plan.call_ == nullptr; };
  const auto group_is_over = [](const Plan& plan) { return plan.group_->refusal("wait_any"); };
  if (Status status = check_all(set.plans, "plan", has_no_call, group_is_over); !status.ok())
    return status;
  const auto is_never_empty = [](const auto&) { return false; };
  const auto is_never_over = [](const auto&) { return Status(); };
  if (Status status = check_all(set.messages, "message", is_never_empty, is_never_over);
      !status.ok())
    return status;
  return check_all(set.requests, "request", is_never_empty, is_never_over);
}

Result<std::size_t> World::wait_any(const WaitSet& set, Deadline deadline) noexcept {
  if (!is_usable(state_)) [[unlikely]]
    return unusable(state_, "World", "wait_any");
  if (set.slots.empty() && set.readers.empty() && set.requests.empty() && set.plans.empty() &&
      set.messages.empty())
    return refuse(Code::bad_argument, [&] { return empty_set(state_->rank); });
  if (Status status = check(set); !status.ok()) return status;
  return wait_any(detail::AwaitedEnds{.set = set}, deadline);
}

Result<std::size_t> World::wait_any(std::span<Slot* const> slots, Deadline deadline) noexcept {
  return wait_any(WaitSet{.slots = slots}, deadline);
}

Result<std::size_t> World::wait_any(std::span<PublishedReader* const> readers,
                                    Deadline deadline) noexcept {
  return wait_any(WaitSet{.readers = readers}, deadline);
}

Result<std::size_t> World::wait_any(std::span<Request* const> requests,
                                    Deadline deadline) noexcept {
  return wait_any(WaitSet{.requests = requests}, deadline);
}

}  // namespace weft
