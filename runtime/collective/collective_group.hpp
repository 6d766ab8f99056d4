// One rank's side of a group: what is the same however its ranks are reached.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/progress/progress_registry.hpp"
#include "p2p/transport/local_rank.hpp"
#include "runtime/collective/collective_messages.hpp"
#include "runtime/collective/planned_call.hpp"

namespace weft::detail {

class CollectiveTable;

/// Calls under way, in their order, and how they end. How they are carried out is for those who
/// derive from it. Between the application's calls, whichever of its threads waits moves them.
class CollectiveGroup : public p2p::Progressable {
 public:
  static constexpr std::size_t kUnderWay = 4;
  static constexpr bool kKeepsSlot = false;

  CollectiveGroup(p2p::LocalRank& local, p2p::Mesh& mesh, CollectiveTable& table,
                  std::vector<int> ranks, std::uint64_t id);
  virtual ~CollectiveGroup();

  int rank() const noexcept { return me_; }
  int size() const noexcept { return static_cast<int>(ranks_.size()); }
  std::span<const int> ranks() const noexcept { return ranks_; }
  std::uint64_t id() const noexcept { return id_; }
  std::uint64_t bytes_copied() const noexcept {
    return bytes_copied_.load(std::memory_order_relaxed);
  }

  // The application's thread.
  /// Memory that the others must know of before they meet; none where they need not.
  virtual p2p::MemoryRef area() const noexcept { return {}; }
  /// All have said where their areas are: connects to them. Throws Error.
  /// `choices`: the first rank's.
  virtual void meet(std::span<const p2p::MemoryRef> areas, const Choices& choices,
                    Deadline deadline) = 0;
  std::shared_ptr<PlannedCall> plan(const Call& call);
  Status start(const std::shared_ptr<PlannedCall>& call) noexcept;
  /// Whether it has ended.
  bool test(PlannedCall& call) noexcept;
  Status wait(PlannedCall& call, Deadline deadline) noexcept;
  /// start() and wait().
  Status run(const std::shared_ptr<PlannedCall>& call, Deadline deadline) noexcept;
  Status run_once(const Call& call, Deadline deadline) noexcept;
  /// Waits until no other rank can touch the tensors of calls that have ended.
  Status settle(Deadline deadline) noexcept;
  /// The plan goes; if it is under way, the group ends.
  void drop(const std::shared_ptr<PlannedCall>& call) noexcept;
  /// The handle goes.
  void close() noexcept;

  /// Any thread: the group can't go on. The first reason stays.
  void fail(const Status& why) noexcept;
  /// The progress thread: a rank says which call it waits in.
  void hear(int rank, const CollectiveMessage& waits) noexcept;

  // Any thread that waits, while the application's thread is in none of the calls above.
  p2p::ProgressResult progress(bool may_block) noexcept final;
  bool busy() const noexcept { return queued_ > 0; }

 protected:
  /// What is done once for a call. Throws Error.
  virtual void prepare(PlannedCall& call) = 0;
  /// The call was numbered: takes what it needs of the user's tensors now.
  virtual void begin(PlannedCall& call) noexcept = 0;
  /// Takes the first call as far as it goes, up to Stage::ended.
  virtual void advance_first(PlannedCall& call) noexcept = 0;
  /// Shows the others what one of the calls behind it has to give; false when that can't be yet.
  virtual bool show(PlannedCall& call) noexcept = 0;
  /// What became of a rank that has not done its part of a call.
  virtual Status gone_failure(std::uint64_t number) const noexcept = 0;
  /// The ranks that a call waits for.
  virtual std::vector<int> awaited(const PlannedCall& call) const = 0;
  /// Whether a rank that waits for another sees what that one has called.
  virtual bool sees_calls() const noexcept = 0;
  /// Tells the others that this rank has given up every call so far.
  virtual void stop() noexcept = 0;
  /// The place of a member that may still touch the tensors of a call that was given up; -1: none.
  virtual int toucher(const PlannedCall& call) noexcept = 0;
  /// Of the calls that were given up, what has not begun to move never will.
  virtual void cut_off() noexcept {}
  /// The handle goes: so does what is not memory.
  virtual void disconnect() noexcept {}

  /// Another rank has called something else as this or an earlier call.
  void mismatch(std::uint64_t number, int other, const Signature& theirs) noexcept;
  /// The same, of a call too long ago to say which.
  void mismatch_before(std::uint64_t number, int other) noexcept;
  /// What another rank says of its tensors can't be.
  void refuse(const PlannedCall& call, int other, std::string what) noexcept;
  /// What this rank has called, for the last kCallsKept calls.
  static constexpr std::uint64_t kCallsKept = 8;
  const Signature& called(std::uint64_t number) const noexcept {
    return called_[number % kCallsKept];
  }
  /// all_to_all: another rank's part for this one is not what is expected of it.
  void unequal_parts(const PlannedCall& call, int other, std::int64_t elements,
                     std::int64_t expected) noexcept;
  void tell_failure(const Status& why) noexcept;
  /// Ranks for a message, with what is known to be wrong with them.
  std::string named(std::span<const int> ranks) const;
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  std::span<const std::shared_ptr<PlannedCall>> under_way() const noexcept {
    return {queue_.data(), queued_};
  }
  std::uint64_t numbered() const noexcept { return numbered_; }

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  CollectiveTable& table_;
  const std::vector<int> ranks_;
  const std::uint64_t id_;
  const int me_;
  /// Whether a piece more of the first call's work may be done now: its caller's deadline has not
  /// passed, and other operations are not kept waiting for long. `alone`: it is all of the work.
  bool may_work(bool alone) noexcept;
  void set_bytes_copied(std::uint64_t bytes) noexcept {
    bytes_copied_.store(bytes, std::memory_order_relaxed);
  }

 private:
  // Of those above, what needs the group attended to.
  Status enqueue(const std::shared_ptr<PlannedCall>& call) noexcept;
  Status await(PlannedCall& call, Deadline deadline) noexcept;
  /// Two ranks may each wait for the other to begin, as the root, say: tells some of those that are
  /// waited for in which call. Each time others.
  void say_who_waits(std::size_t nth) noexcept;
  void compare_heard() noexcept;
  void withdraw(const std::shared_ptr<PlannedCall>& call, Clock::time_point until) noexcept;
  p2p::ScopedOwner<CollectiveGroup> acquire() noexcept {
    return {local_.waiter.progress_registry(), *this};
  }
  /// How much of a call's work is done at once. By who does not wait for it: 16 MiB of a tensor.
  struct Stint {
    std::size_t pieces = 64;
    Clock::time_point until = Clock::time_point::max();
  };
  void advance() noexcept { advance(Stint()); }
  void advance(Stint stint) noexcept;
  void disagree(const char* operation, int other, std::string what, const char* hint) noexcept;
  Status failure() const noexcept;
  /// The same, under the name of a call that it ends.
  Status failure_of(const PlannedCall& call) const noexcept;
  bool broken() const noexcept;
  Status late(const PlannedCall& call) const noexcept;
  /// The first step of the end of every call under way: the others are told.
  void break_off() noexcept;
  /// Ends every call under way, by `until`. A call whose tensors another rank may still touch then
  /// keeps them: they are lent.
  void give_up(Clock::time_point until) noexcept;
  /// Since break_off(): when members that are no quicker are waited for no longer.
  Clock::time_point patience() const noexcept;
  /// The place of a member that may touch tensors of a call under way; -1: none.
  int inside() noexcept;
  void lend(std::shared_ptr<PlannedCall>& call) noexcept;
  /// Ends the loans that are over. The place of a member that may still touch the others; -1: none.
  int take_back() noexcept;
  /// `why`, and that the tensors of the call stay lent because of a member; as it is if they don't.
  Status with_loan(const PlannedCall& call, const Status& why) const noexcept;

  std::atomic<std::uint64_t> bytes_copied_{0};
  std::uint64_t numbered_ = 0;  ///< calls started
  std::array<std::shared_ptr<PlannedCall>, kUnderWay> queue_;
  std::size_t queued_ = 0;
  struct Loan {
    std::shared_ptr<PlannedCall> call;
    int to = -1;  ///< the place of a member
  };
  std::array<Loan, kUnderWay> loans_;  ///< a group gives up once
  std::array<Signature, kCallsKept> called_{};
  std::array<std::uint32_t, kCallsKept> marks_{};  ///< of the same calls
  struct Heard {                                   ///< what another rank waits in
    int from = -1;                                 ///< its place
    std::uint64_t number = 0;
    std::uint32_t mark = 0;
    Signature signature{};
  };
  std::mutex heard_mutex_;
  std::vector<Heard> heard_;            ///< one of a rank at most
  std::atomic<bool> has_heard_{false};  ///< something that is to be compared now
  bool keeps_heard_ = false;            ///< something of calls that this rank has not come to
  std::uint64_t history_ = 0;           ///< of all calls
  Stint stint_;
  bool stint_over_ = false;  ///< there was more to do
  Clock::time_point disconnected_at_ = Clock::time_point::max();
  std::atomic<bool> failed_{false};
  mutable std::mutex failure_mutex_;
  Status failure_;
};

}  // namespace weft::detail
