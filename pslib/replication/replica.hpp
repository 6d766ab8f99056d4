// The protocol by which the replicas of a shard stay one: docs/pslib.md, Replication.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace weft::pslib {

/// One push of a worker's, as a record names it.
struct RecordedPush {
  std::size_t worker = 0;
  std::uint64_t sequence = 0;
  bool is_dropped = false;  ///< done with, but not part of the update

  bool operator==(const RecordedPush&) const = default;
};

/// The n-th change of a shard.
struct Record {
  std::uint64_t number = 0;  ///< counts from 1; 0: none
  std::vector<RecordedPush> pushes;

  bool operator==(const Record&) const = default;
};

/// What a replica says of itself. Each message replaces its sender's former one; none in between
/// has to arrive.
struct ReplicaMessage {
  std::uint64_t epoch = 0;
  // As it entered the epoch, the same in all of its messages.
  bool had_state = false;
  std::uint64_t number_then = 0;
  std::uint64_t led = 0;  ///< 1 + the last epoch in which it was the primary; 0: none
  // Now.
  bool has_state = false;    ///< of record `number`: kept until a newer one replaces it
  bool needs_state = false;  ///< it can't follow the primary's records: it must be given the whole
  std::uint64_t number = 0;  ///< of the last record that is in its state
  bool offers = false;       ///< the primary's: its state, for those that must be given it
  Record record;             ///< the primary's last of this epoch

  bool operator==(const ReplicaMessage&) const = default;
};

/// One replica's part: messages in, message out, and what the replica of the state has to do now.
/// It knows no time, threads or network. Thread-safety: one thread at a time.
class Replica {
 public:
  enum class Duty : std::uint8_t {
    none,
    commit,  ///< primary: all replicas have what it has: publish and acknowledge; then committed()
    offer,   ///< primary: make its state readable; then offered()
    apply,   ///< backup: the record() to its state; then applied(), or could_not_apply()
    fetch,   ///< backup: the primary's state; then fetched()
    lost     ///< no replica that lives has the state
  };

  /// `self` is a server. It holds nothing before enter().
  explicit Replica(std::size_t self) : self_(self) {}

  /// The next configuration: replicas in their order. `starts` in the first of all, in which every
  /// replica has the state of a shard that nothing was pushed to.
  void enter(std::uint64_t epoch, std::span<const std::size_t> replica_sets, bool starts = false);
  /// Another server's newest message. Those of former epochs count for nothing; those of later ones
  /// wait for enter().
  void receive(std::size_t from, const ReplicaMessage& message);

  /// What to do next; ask again after each answer.
  Duty duty() const;
  /// Primary: whether the next record may be made, as all replicas have the last.
  bool may_order() const;
  /// Primary: the next record, which it has to apply at once; then applied().
  void order(std::vector<RecordedPush> pushes);

  void applied();
  /// A gradient that the record names can't be read here. The state stays as it is, so that this
  /// replica leads with it where nobody else is left.
  void could_not_apply();
  /// The whole state, as of record `number`.
  void fetched(std::uint64_t number);
  void offered();
  void committed();

  bool holds() const noexcept { return holds_; }
  bool is_primary() const noexcept { return is_decided_ && primary_ == self_; }
  /// Backup, with the duty to fetch.
  std::size_t primary() const noexcept { return primary_; }
  bool has_state() const noexcept { return own_.has_state; }
  /// Of the epoch; of a backup the primary's.
  const Record& record() const;
  /// For the others. It has changed where `revision` has.
  const ReplicaMessage& message() const noexcept { return own_; }
  std::uint64_t revision() const noexcept { return revision_; }
  std::uint64_t epoch() const noexcept { return own_.epoch; }
  /// The newest epoch that another server has spoken of.
  std::uint64_t newest_epoch() const noexcept { return newest_epoch_; }

 private:
  const ReplicaMessage* heard(std::size_t server) const;
  bool is_level(std::size_t server) const;
  bool must_be_given(std::size_t server) const;
  void decide();

  const std::size_t self_;
  std::vector<std::size_t> others_;  // replicas of the epoch
  std::vector<std::size_t> replica_sets_;
  std::map<std::size_t, ReplicaMessage> messages_;
  ReplicaMessage own_;
  std::uint64_t led_ = 0;
  std::uint64_t revision_ = 0;
  std::uint64_t newest_epoch_ = 0;
  std::size_t primary_ = 0;
  bool holds_ = false;
  bool is_decided_ = false;
  bool is_lost_ = false;
  bool is_committed_ = false;  // what is in the state of a primary
};

}  // namespace weft::pslib
