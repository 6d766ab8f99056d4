// The replication protocol that keeps the replicas of a shard identical: docs/pslib.md,
// Replication.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace weft::pslib {

/// One push of a worker, as named by a record.
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

/// A replica's status message. Each message replaces the sender's previous one; intermediate
/// messages may be lost.
struct ReplicaMessage {
  std::uint64_t epoch = 0;
  // At the moment it entered the epoch; the same in all its messages of the epoch.
  bool had_state = false;
  std::uint64_t number_then = 0;
  std::uint64_t led = 0;  ///< 1 + the last epoch in which it was the primary; 0: none
  // Now.
  bool has_state = false;    ///< has the state after record `number`
  bool needs_state = false;  ///< can't follow the primary's records, so it needs the whole state
  std::uint64_t number = 0;  ///< the last record applied to its state
  bool offers = false;       ///< primary: its state can be fetched by replicas that need it
  Record record;             ///< primary: its last record of this epoch

  bool operator==(const ReplicaMessage&) const = default;
};

/// The protocol of one replica as a pure state machine: messages in, message out, and the duty to
/// perform next. Uses no clock, threads or network. Not thread-safe.
class Replica {
 public:
  enum class Duty : std::uint8_t {
    none,
    commit,  ///< primary: all replicas are level, so publish and acknowledge; then committed()
    offer,   ///< primary: make the state readable; then offered()
    apply,   ///< backup: apply record(); then applied(), or could_not_apply()
    fetch,   ///< backup: fetch the primary's state; then fetched()
    lost     ///< no live replica has the state
  };

  /// `self` is a server's index. Holds nothing before enter().
  explicit Replica(std::size_t self) : self_(self) {}

  /// Enters the next configuration, with the replicas in their order. `starts` marks the first one,
  /// in which every replica has the state of a shard without pushes.
  void enter(std::uint64_t epoch, std::span<const std::size_t> replica_sets, bool starts = false);
  /// Takes another server's newest message. Messages of former epochs are ignored; those of later
  /// epochs wait for enter().
  void receive(std::size_t from, const ReplicaMessage& message);

  /// The duty to perform next; ask again after each answer.
  Duty duty() const;
  /// Primary: true if the next record may be made because all replicas have the last one.
  bool may_order() const;
  /// Primary: makes the next record, which the caller must apply at once and then call applied().
  void order(std::vector<RecordedPush> pushes);

  void applied();
  /// A gradient that the record names can't be read here. The state stays unchanged, so that this
  /// replica can become primary if no other is left.
  void could_not_apply();
  /// The whole state was loaded, as of record `number`.
  void fetched(std::uint64_t number);
  void offered();
  void committed();

  bool holds() const noexcept { return holds_; }
  bool is_primary() const noexcept { return is_decided_ && primary_ == self_; }
  /// Backup with the duty to fetch: the server to fetch from.
  std::size_t primary() const noexcept { return primary_; }
  bool has_state() const noexcept { return own_.has_state; }
  /// The last record of the epoch; on a backup the primary's.
  const Record& record() const;
  /// The message for the other servers. Changes whenever `revision` does.
  const ReplicaMessage& message() const noexcept { return own_; }
  std::uint64_t revision() const noexcept { return revision_; }
  std::uint64_t epoch() const noexcept { return own_.epoch; }
  /// The newest epoch named by another server.
  std::uint64_t newest_epoch() const noexcept { return newest_epoch_; }

 private:
  const ReplicaMessage* heard(std::size_t server) const;
  bool is_level(std::size_t server) const;
  bool must_be_given(std::size_t server) const;
  void decide();

  const std::size_t self_;
  std::vector<std::size_t> others_;  // the epoch's other replicas
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
  bool is_committed_ = false;  // primary: its state is committed
};

}  // namespace weft::pslib
