// One rank's side of a group, as far as all fabrics share it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/progress/progress_registry.hpp"
#include "p2p/transport/local_rank.hpp"
#include "runtime/collective/collective_messages.hpp"
#include "runtime/collective/entry_news.hpp"
#include "runtime/collective/group_row.hpp"
#include "runtime/collective/planned_call.hpp"
#include "runtime/collective/stream_runs.hpp"
#include "weft/device.hpp"

namespace weft::detail {

class CollectiveTable;

/// Keeps the calls in progress in order and ends them. Derived classes carry them out. Between the
/// application's calls, any of its threads that waits in weft makes progress on them.
class CollectiveGroup : public p2p::Progressable {
 public:
  static constexpr std::size_t kUnderWay = 4;
  static constexpr bool kKeepsSlot = false;

  /// `nth`: of the groups with these ranks, from 0.
  CollectiveGroup(p2p::LocalRank& local, p2p::Mesh& mesh, CollectiveTable& table,
                  std::vector<int> ranks, std::uint64_t id, std::uint64_t nth);
  virtual ~CollectiveGroup();

  int rank() const noexcept { return me_; }
  int size() const noexcept { return static_cast<int>(ranks_.size()); }
  std::span<const int> ranks() const noexcept { return ranks_; }
  std::uint64_t id() const noexcept { return id_; }
  /// Counters of its calls. Any thread.
  const GroupRow& row() const noexcept { return row_; }
  /// Why no call begins any more, or ok().
  Status refusal(const char* operation) const noexcept;

  // The application's thread.
  /// Memory of this rank that the other members must know before meet(); empty if they need none.
  virtual p2p::MemoryRef area() const noexcept { return {}; }
  /// Connects to the members' areas, once every member has announced its own. `choices`: the first
  /// rank's. Throws Error.
  virtual void meet(std::span<const p2p::MemoryRef> areas, const Choices& choices,
                    Deadline deadline) = 0;
  std::shared_ptr<PlannedCall> plan(const Call& call);
  Status start(const std::shared_ptr<PlannedCall>& call) noexcept;
  /// Puts a run of the plan on a stream.
  Status start(const std::shared_ptr<PlannedCall>& call, Stream stream, Deadline deadline) noexcept;
  /// True if the call has ended.
  bool test(PlannedCall& call) noexcept;
  /// True if test() may end the call where nothing else does: a member is gone, the group has
  /// failed, or the call's output is copied to a GPU. Any thread.
  bool wants_test(const PlannedCall& call) const noexcept {
    return failed() || mesh_.gone_count() != 0 || call.stage == PlannedCall::Stage::taking;
  }
  Status wait(PlannedCall& call, Deadline deadline) noexcept;
  /// start() and wait().
  Status run(const std::shared_ptr<PlannedCall>& call, Deadline deadline) noexcept;
  Status run_once(const Call& call, Deadline deadline) noexcept;
  /// Returns once no other rank can touch the tensors of calls that have ended.
  Status settle(Deadline deadline) noexcept;
  /// Releases the plan. A call in progress is cancelled, and the group fails.
  void drop(const std::shared_ptr<PlannedCall>& call) noexcept;
  /// Releases the group's handle.
  void close() noexcept;

  /// Any thread: fails the group. The first reason stays.
  void fail(const Status& why) noexcept;
  /// Progress thread: `rank` has reported the call in which it waits.
  void hear(int rank, const CollectiveMessage& waits) noexcept;
  /// Progress thread: `rank` has said that it has entered a call.
  void hear_entered(int rank, const CollectiveMessage& message) noexcept;
  /// Progress thread: the answer to `waits` if this rank has entered that call.
  std::optional<CollectiveMessage> answer(const CollectiveMessage& waits) const noexcept;
  /// Progress thread: `rank` has closed the group, or has never opened it.
  void hear_closed(int rank) noexcept;

  // Any thread that waits, while the application's thread is in none of the functions above.
  p2p::ProgressResult progress(bool may_block) noexcept final;
  bool busy() const noexcept { return queued_ > 0 || (known_.owes && !known_.has_closed); }

 protected:
  friend class CollectiveTable;
  /// True while this rank's GPU works for a call of the group, given up or not, or proves a path:
  /// it touches others' memory. The group's owner asks, or the table once the handle has gone.
  virtual bool gpu_works() noexcept { return false; }
  /// Whether GPUs of the members have been offered tensors of this rank's.
  virtual bool has_lent_gpus() const noexcept { return false; }
  /// Does the work needed once per plan; the caller owns the group. Throws Error.
  virtual void prepare(PlannedCall& call) = 0;
  /// Progress thread: `rank` has said whether its GPU takes part in a call. Returns the answer.
  virtual std::optional<CollectiveMessage> hear_gpu(int /*rank*/,
                                                    const CollectiveMessage& /*word*/) noexcept {
    return {};
  }
  /// Called once the call has its number: copies those user tensors that must be copied at once.
  virtual void begin(PlannedCall& call) noexcept = 0;
  /// Prepares a call on tensors on GPUs for these to carry it out, `task` on the tensors of
  /// `call`: sets `device`, or `asks_again`, or neither if they never do. Throws Error.
  virtual void offer(PlannedCall& /*planned*/, const Task& /*task*/, const Call& /*call*/) {}
  /// The call by which the ranks agree that streams run a plan; null: they don't, on any rank, and
  /// the reason is kept. Throws Error.
  virtual std::shared_ptr<PlannedCall> make_preparation(PlannedCall& call);
  /// The progress thread looks after the runs from now on.
  void watch_streams(const std::shared_ptr<StreamRuns>& runs);
  /// True while a stream of this rank is in a run of a plan.
  bool streams_work() noexcept;
  /// True while a call's input is copied from a GPU, which rings no doorbell.
  bool brings() const noexcept;
  /// True while something goes on for the oldest call that rings no doorbell.
  virtual bool works_silently() const noexcept { return false; }
  /// Moves the oldest call as far as possible, up to Stage::ended.
  virtual void advance_first(PlannedCall& call) noexcept = 0;
  /// Publishes this rank's input of a later call to the others; false if that is not possible yet.
  virtual bool show(PlannedCall& call) noexcept = 0;
  /// The failure caused by a member that is gone and has not done its part of call `number`.
  virtual Status gone_failure(std::uint64_t number) const noexcept = 0;
  /// Adds the members (indices) that a call waits for.
  virtual void add_awaited(const PlannedCall& call, std::vector<int>& members) const = 0;
  std::vector<int> awaited(const PlannedCall& call) const {
    std::vector<int> members;
    add_awaited(call, members);
    return members;
  }
  /// True if a waiting rank can see the calls that the others have made.
  virtual bool sees_calls() const noexcept = 0;
  /// True if a part of the oldest call has come from this member.
  virtual bool has_part_of(const PlannedCall&, int /*member*/) const noexcept { return false; }
  /// Tells the others that this rank has given up every call so far.
  virtual void stop() noexcept = 0;
  /// Index of a member that may still touch the tensors of a call that was given up; -1: no member.
  virtual int toucher(const PlannedCall& call) noexcept = 0;
  /// True if the call cannot end without `member`, which takes part in no further call. Only the
  /// oldest call's answer counts.
  virtual bool needs_more(const PlannedCall&, int /*member*/) noexcept { return false; }
  /// Cancels sends of given-up calls that have not started.
  virtual void cut_off() noexcept {}
  /// Closes connections when the handle is released; memory stays until no rank uses it.
  virtual void disconnect() noexcept {}

  /// Fails the group: member `other` has made another call than this rank as call `number` or
  /// before.
  void mismatch(std::uint64_t number, int other, const Signature& theirs) noexcept;
  /// The same for a difference too old to name.
  void mismatch_before(std::uint64_t number, int other) noexcept;
  /// Fails the group: member `other` announces tensors that cannot be right.
  void refuse(const PlannedCall& call, int other, std::string what) noexcept;
  /// Signatures of this rank's last kCallsKept calls.
  static constexpr std::uint64_t kCallsKept = 8;
  const Signature& called(std::uint64_t number) const noexcept {
    return called_[number % kCallsKept].signature;
  }
  /// all_to_all: fails the group, because `other`'s part for this rank has an unexpected size.
  void unequal_parts(const PlannedCall& call, int other, std::int64_t elements,
                     std::int64_t expected) noexcept;
  void tell_failure(const Status& why) noexcept;
  /// A call that the GPUs do not carry out goes by host memory, under the same number. `for_good`:
  /// and so do later starts of it.
  void fall_back(PlannedCall& call, bool for_good) noexcept;
  /// Fails the group, as this rank's GPU has not done what the call needs.
  void fail_on_gpu(const PlannedCall& call, const char* what, const Status& why) noexcept;
  void count_device_copies(std::uint64_t copies) noexcept {
    row_.edge.gpu_counters().device_copies.add(copies);
  }
  /// Formats `ranks` for a message, each with the reason why it is suspected of failure, if any.
  std::string named(std::span<const int> ranks) const;
  bool failed() const noexcept { return failure_.is_there.load(std::memory_order_acquire); }
  std::span<const std::shared_ptr<PlannedCall>> under_way() const noexcept {
    return {queue_.data(), queued_};
  }
  /// Calls that were given up and whose tensors are lent, by place; null: none.
  std::array<PlannedCall*, kUnderWay> lent() const noexcept {
    std::array<PlannedCall*, kUnderWay> calls{};
    for (std::size_t i = 0; i < calls.size(); ++i) calls[i] = loans_[i].call.get();
    return calls;
  }
  std::uint64_t numbered() const noexcept { return numbered_.load(std::memory_order_relaxed); }

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  CollectiveTable& table_;
  const std::vector<int> ranks_;
  const std::uint64_t id_;
  const int me_;
  /// True if another piece of the first call's work may be done now: the caller's deadline has not
  /// passed, and other operations have not waited too long. `alone`: the piece is all of the work.
  bool may_work(bool alone) noexcept;
  void set_bytes_copied(std::uint64_t bytes) noexcept {
    row_.bytes_copied.store(bytes, std::memory_order_relaxed);
  }
  void count_copied(std::uint64_t bytes) noexcept {
    set_bytes_copied(row_.bytes_copied.load(std::memory_order_relaxed) + bytes);
  }

  /// Takes the group from threads that progress it between the application's calls.
  p2p::ScopedOwner<CollectiveGroup> acquire() noexcept {
    return {local_.waiter.progress_registry(), *this};
  }

 private:
  // Parts of the functions above that require ownership of the group (acquire()).
  Status enqueue(const std::shared_ptr<PlannedCall>& call) noexcept;
  Status await(PlannedCall& call, Deadline deadline) noexcept;
  /// Whether the GPU of a member that is gone may go on writing this rank's tensors.
  Status still_written() const noexcept;
  Status make_and_run(const Call& call, Deadline deadline) noexcept;
  // Calls on tensors on a GPU (gpu_plan.cpp).
  /// A call that the GPUs may carry out; without `device`, it goes by host memory, which is to be
  /// prepared. Throws Error.
  std::shared_ptr<PlannedCall> plan_on_gpu(const Call& call);
  /// Prepares a call that has no `device` for host memory. Throws Error.
  void plan_on_host(PlannedCall& planned);
  /// The same for a call on tensors in host memory.
  void plan_work(PlannedCall& planned);
  /// The reason why a call has no `device` may have passed.
  void offer_again(PlannedCall& call) noexcept;
  /// Begins to copy a plan's input, if it has one there.
  Status begin_to_bring(PlannedCall& call) noexcept;
  /// Begins the calls whose inputs are here.
  void bring() noexcept;
  /// The call has ended for the group: begins to copy its output.
  void begin_to_take(PlannedCall& call) noexcept;
  /// Ends the call if that copy has ended.
  void take(PlannedCall& call) noexcept;
  /// Waits until all inputs are here, but not beyond a failure or the deadline.
  void await_brought(PlannedCall& call, Deadline until) noexcept;
  Status await_taken(PlannedCall& call, Deadline until) noexcept;
  Status late_gpu(const PlannedCall& call) const noexcept;
  void count_staged(GpuCall& call) noexcept {
    row_.bytes_staged.fetch_add(call.take_staged_bytes(), std::memory_order_relaxed);
  }
  /// run_once() on host memory that stands in for tensors on a GPU. Throws Error.
  Status run_staged(GpuCall& staged, Deadline until);
  // Plans that streams run (stream_plan.cpp, stream_watch.cpp).
  /// Progress thread: sees to runs on streams. True if it is to look again soon.
  bool serve_streams() noexcept;
  /// Ends the runs on streams, of one plan or, null, of all. `what`: this rank has done that.
  void end_streams(const StreamRuns* of, const char* what) noexcept;
  /// Has the ranks agree. Not ok(): it is to be called again, or the group has ended.
  Status prepare_streams(PlannedCall& call, Deadline until);
  void put_on(PlannedCall& call, const p2p::cuda::UserStream& user, bool is_captured,
              std::chrono::nanoseconds limit);
  /// The thread waits for the stream, and runs the plan.
  Status run_on_thread(const std::shared_ptr<PlannedCall>& call, const p2p::cuda::UserStream& user,
                       bool is_captured, Deadline until);
  Status why_ended(const PlannedCall& call) noexcept;
  Status ended_elsewhere(Code code) const noexcept;
  /// True if it is to be looked at again soon. Requires the mutex of `streams_`, as the next ones
  /// up to toucher_of().
  bool serve(StreamRuns& runs) noexcept;
  Status why_to_end(StreamRuns& runs) noexcept;
  Status gone_from(const StreamRuns& runs, int rank) const noexcept;
  /// A member that may touch this rank's tensors in a run that has ended here; -1: none.
  int toucher_of(const StreamRuns& runs) const noexcept;
  int stream_toucher() noexcept;
  /// Tells up to 8 of the awaited members which call this rank waits in, others each time (`nth`).
  /// Two ranks may otherwise wait for each other without seeing that they disagree, about the root,
  /// for example.
  void say_who_waits(std::size_t nth) noexcept { ask(kSome, nth); }
  void ask_all() noexcept { ask(ranks_.size(), 0); }
  /// Tells `most` of the awaited members, and notes whom this rank misses.
  void ask(std::size_t most, std::size_t nth) noexcept;
  static constexpr std::size_t kSome = 8;
  bool has_entered(const PlannedCall& call, int member) const noexcept {
    return has_part_of(call, member) || news_.has_entered(member, call.number);
  }
  /// The members (indices) that have not entered the oldest call, as far as this rank has heard:
  /// those that it has asked without an answer, and those that others miss. Throws std::bad_alloc.
  std::vector<int> absent(const PlannedCall& call) const;
  /// Names `members`, as many as fit.
  void list_absent(CollectiveMessage& message, std::span<const int> members) const noexcept;
  void compare_heard() noexcept;
  /// Fails the group if the first call needs a member that has closed it.
  void check_closed() noexcept;
  void withdraw(const std::shared_ptr<PlannedCall>& call, Clock::time_point until) noexcept;
  /// Limits how much of a call's work is done at once. The default, 64 pieces (16 MiB of a tensor),
  /// is for callers that do not wait for this call.
  struct Stint {
    std::size_t pieces = 64;
    Clock::time_point until = Clock::time_point::max();
    bool over = false;  ///< it ended before the work did
  };
  void advance() noexcept { advance(Stint()); }
  void advance(Stint stint) noexcept;
  void disagree(const char* operation, int other, std::string what, const char* hint) noexcept;
  Status failure() const noexcept;
  /// The same, under the name of a call that it ends.
  Status failure_of(const PlannedCall& call) const noexcept;
  bool broken() const noexcept;
  Status late(const PlannedCall& call) const noexcept;
  /// How tools see a wait for `call`. `has_asked`: tells of members that have not entered it, which
  /// allocates.
  stats::WaitAbout about(const PlannedCall& call, std::uint64_t since_ns, bool has_asked,
                         stats::WaitDetails& details) const noexcept;
  /// Tools see that the oldest call has ended, or that a call has been started.
  void show_ended(const PlannedCall& call) noexcept;
  void show_under_way() noexcept { row_.edge.pending().store(queued_, std::memory_order_relaxed); }
  /// Why the call has not ended, and the ranks that this names. Throws std::bad_alloc.
  std::string lateness(const PlannedCall& call, std::vector<int>& ranks) const;
  /// Begins to end every call in progress: tells the others.
  void break_off() noexcept;
  /// Ends every call in progress, by `until`. A call whose tensors another rank may still touch by
  /// then keeps them as a loan.
  void give_up(Clock::time_point until) noexcept;
  /// When this rank stops waiting for members that are still inside its tensors: counted from
  /// break_off().
  Clock::time_point patience() const noexcept;
  /// Index of a member that may touch tensors of a call in progress; -1: no member.
  int inside() noexcept;
  void lend(std::shared_ptr<PlannedCall>& call) noexcept;
  /// Ends the loans that are over. Returns the index of a member that may still touch the tensors
  /// of another loan; -1: no member.
  int take_back() noexcept;
  /// Returns `why`, extended if the call's tensors stay lent because of a member.
  Status with_loan(const PlannedCall& call, const Status& why) const noexcept;

  mutable GroupRow row_;
  std::atomic<std::uint64_t> numbered_{0};  ///< calls started
  std::array<std::shared_ptr<PlannedCall>, kUnderWay> queue_;
  std::size_t queued_ = 0;
  struct Loan {
    std::shared_ptr<PlannedCall> call;
    int to = -1;  ///< index of the member that may touch the tensors
  };
  std::array<Loan, kUnderWay> loans_;  ///< enough, because a group gives up only once
  struct Called {
    Signature signature{};
    std::uint32_t mark = 0;
  };
  std::array<Called, kCallsKept> called_{};  ///< this rank's last calls
  struct Heard {                             ///< the call in which another rank waits
    int from = -1;                           ///< index of the member
    std::uint64_t number = 0;
    std::uint32_t mark = 0;
    Signature signature{};
  };
  std::mutex heard_mutex_;
  std::vector<Heard> heard_;            ///< at most one per member
  std::vector<int> closed_by_;          ///< members that have closed the group
  std::atomic<bool> has_heard_{false};  ///< an entry of `heard_` can be compared now
  bool keeps_heard_ = false;            ///< `heard_` has calls that this rank has not made yet
  EntryNews news_;
  struct Streams {
    std::mutex mutex;
    std::vector<std::shared_ptr<StreamRuns>> all;  ///< with a meeting
  } streams_;
  std::uint64_t history_ = 0;  ///< hash of all calls so far
  Stint stint_;
  Clock::time_point disconnected_at_ = Clock::time_point::max();
  struct Known {
    bool has_closed = false;  ///< its handle has gone; plans may be there yet
    bool owes = false;        ///< calls were given up, and gpu_works()
  };
  Known known_;
  struct Failure {
    std::atomic<bool> is_there{false};
    mutable std::mutex mutex;
    Status why;
  } failure_;
};

}  // namespace weft::detail
