// All groups of this rank, and the control messages about them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "p2p/mesh/mesh.hpp"
#include "p2p/slot/slot_table.hpp"
#include "p2p/transport/local_rank.hpp"
#include "runtime/collective/collective_group.hpp"
#include "runtime/collective/collective_messages.hpp"

namespace weft::detail {

class CollectiveTable {
 public:
  CollectiveTable(p2p::LocalRank& local, p2p::Mesh& mesh, p2p::SlotTable& slots)
      : local_(local), mesh_(mesh), slots_(slots) {}

  /// Reads WEFT_COLL and WEFT_COLL_COSTS. Call before the first group. Throws Error(bad_config).
  void choose_by(std::string_view rules, const std::string& costs) {
    rules_ = parse_rules(rules);
    costs_ = read_costs(costs);
  }
  /// Sets the NUMA node of this rank; -1: none. Call before the first group.
  void settle_in(int numa_node) noexcept { numa_node_ = numa_node; }

  /// The use that a group is opened for. Groups of the same ranks are told apart by their order
  /// among those of one purpose.
  enum class Purpose : std::uint8_t {
    calls,  ///< the application's
    split   ///< one exchange of a few words: by slots, within a host too
  };

  // Any application thread.
  std::shared_ptr<CollectiveGroup> open(std::span<const int> ranks, Deadline deadline,
                                        Purpose purpose = Purpose::calls);
  /// Gives every rank the bitwise "or" of all ranks' `words`, of which each has as many, by
  /// about 2 log2 N messages of each rank. Throws Error: as open() and Collectives::run().
  void join_words(std::span<const int> ranks, std::span<std::int64_t> words, Deadline deadline);
  /// Closes the group. Its area stays allocated until no rank reads from it any more. The others
  /// are told once this rank's GPU touches nothing of theirs.
  void close(CollectiveGroup& group) noexcept;
  /// Waits, for a limited time, until this rank's GPUs touch no tensor of another rank. No call is
  /// under way in another thread. Returns whether they may still do.
  bool end_work() noexcept;
  /// Some group has plans that streams run.
  void watch_streams() noexcept { has_streams_.store(true, std::memory_order_release); }
  /// Sends `message` to every member except this rank.
  void tell(std::span<const int> ranks, const CollectiveMessage& message) noexcept;
  /// Sends the descriptor of `chunk` and then `message` to every member except this rank.
  void share(std::span<const int> ranks, std::uint32_t chunk, const CollectiveMessage& message);

  // The progress thread.
  void on_message(p2p::Peer& peer, std::span<const std::byte> bytes);
  void on_gone(p2p::Peer& peer);
  /// Goes on with groups that were closed while a GPU worked, and sees to runs on streams.
  void serve();

 private:
  struct Group {
    std::shared_ptr<CollectiveGroup> here;  ///< null until this rank opens it too
    std::map<int, p2p::MemoryRef> areas;    ///< by rank that has said that it opens the group
    Choices choices{};                      ///< of the first rank, once that has opened the group
    std::string ranks;       ///< the group's ranks as its opener lists them, only for messages
    int nonsense_from = -1;  ///< the rank that sent invalid choices when it opened the group
    std::uint64_t list = 0;
    std::uint64_t nth = 0;
    Purpose purpose = Purpose::calls;
    // Within a host, if the group is large.
    p2p::OwnedBlock directory;         ///< of the first rank: where all areas lie, by place
    p2p::MemoryRef directory_place{};  ///< once all have come
    bool is_shared = false;            ///< others know the chunk of `directory`
    // Between hosts.
    int steps_sent = 0;            ///< rounds of the opening
    std::uint32_t steps_come = 0;  ///< bit k: the message of round k has come
    std::map<int, int> missing;    ///< by rank that waits: the rank that is missing, as it knows
    int believed_missing = -1;     ///< what this rank has told others
    int by_areas_from = -1;        ///< a rank that opens the group as one of a single host
    int by_rounds_from = -1;       ///< a rank that opens it as one of several hosts
    Status given_up;               ///< ok unless a member's open() of the group has failed
    std::set<int> closed;
    bool is_closed = false;   ///< by this rank
    bool is_closing = false;  ///< the same, but a GPU works
  };
  struct Letter {
    int to = -1;
    CollectiveMessage message;
  };
  std::shared_ptr<CollectiveGroup> make(std::vector<int> ranks, std::uint64_t id, std::uint64_t nth,
                                        Purpose purpose);
  static std::uint64_t list_of(std::span<const int> ranks, Purpose purpose) noexcept;
  /// This rank's choices for a group of `ranks`.
  Choices choices_of(std::span<const int> ranks) const;
  bool all_met(std::uint64_t id, std::span<const int> ranks, std::vector<p2p::MemoryRef>& areas,
               Choices& choices) noexcept;

  /// Makes the next group of these ranks that nobody has given up, and tells its members.
  std::shared_ptr<CollectiveGroup> enter(std::span<const int> ranks, Purpose purpose);
  /// The number of the first group from `nth` on that no member has given up, or that a lost member
  /// has failed. Forgets those before it. Requires `mutex_`.
  std::uint64_t pass_over(std::span<const int> ranks, std::uint64_t list, std::uint64_t nth);
  /// Tells members that this rank does not open the `nth` group of `list`.
  void give_up(std::span<const int> ranks, std::uint64_t list, std::uint64_t nth,
               const Status& why) noexcept;
  std::uint64_t number_of(const CollectiveGroup& group);
  /// True if a member's deadline has passed.
  bool was_left_early(std::uint64_t id);

  // Opening a group between hosts (collective_open.cpp). These require `mutex_`.
  CollectiveMessage opening(const Group& group, std::uint64_t id, std::uint32_t step) const;
  /// Adds the messages of the rounds that this rank can enter.
  void enter_rounds(Group& group, std::uint64_t id, std::vector<Letter>& letters) const;
  /// A rank that has not opened the group, as far as this rank knows; -1: not known.
  int missing_rank(const Group& group) const;
  /// Adds messages that tell others that this rank waits, and for which rank.
  void tell_missing(Group& group, std::uint64_t id, std::vector<Letter>& letters) const;
  void on_open(Group& group, int rank, const CollectiveMessage& message,
               std::vector<Letter>& letters) const;

  // Opening a large group within a host (collective_directory.cpp). All but the first three require
  // `mutex_`.
  static constexpr int kFew = 9;  ///< in a group of at most 9 ranks each tells all others
  static bool opens_by_directory(const CollectiveGroup& group) noexcept;
  p2p::OwnedBlock make_directory(const CollectiveGroup& group) const;
  /// Sends the message by which this rank opens the group.
  void enter_directory(std::span<const int> ranks, std::uint64_t id,
                       const CollectiveMessage& opened);
  /// Fills the directory and adds the messages that tell of it, once all have come.
  void fill_directory(Group& group, std::uint64_t id, std::vector<Letter>& letters) const;
  /// A rank that has not opened the group, as far as this rank knows; -1: not known.
  int absent_rank(const Group& group) const;
  void tell_absent(Group& group, std::uint64_t id, std::vector<Letter>& letters) const;
  void on_directory(Group& group, int rank, const CollectiveMessage& message,
                    std::vector<Letter>& letters) const;
  bool read_directory(const Group& group, std::vector<p2p::MemoryRef>& areas) const noexcept;

  /// A rank that has taken the group for one of another kind; -1: no rank.
  static int other_kind(const Group& group);
  static bool all_come(const Group& group);
  static bool cannot_open(const Group& group);

  /// Progress thread.
  void send(const std::vector<Letter>& letters);
  p2p::WaitEnd await_members(std::uint64_t id, std::span<const int> ranks,
                             std::vector<p2p::MemoryRef>& areas, Choices& choices, Deadline until);
  /// Returns null for a group that this rank does not know and does not expect.
  Group* find(const CollectiveMessage& message);
  void erase_if_over(std::uint64_t id);
  void say_closed(const CollectiveGroup& group) noexcept;
  /// Progress thread: the group is closed, if no GPU works for it. Requires `mutex_`.
  void close_if_idle(std::uint64_t id);
  void check(std::span<const int> ranks) const;
  /// How tools see that this rank waits for others to open the group.
  stats::WaitAbout about_opening(std::uint64_t id, std::span<const int> ranks,
                                 std::uint64_t since_ns, stats::WaitDetails& details) noexcept;
  /// The reason why a group was not opened.
  Status nobody(std::uint64_t id, std::span<const int> ranks, p2p::WaitEnd end);
  bool cannot_open(std::uint64_t id) noexcept;
  /// For messages: names another group that `rank` has opened and this rank has not.
  std::string elsewhere(int rank) const;

  p2p::LocalRank& local_;
  p2p::Mesh& mesh_;
  p2p::SlotTable& slots_;
  Choices rules_;
  Costs costs_;
  int numa_node_ = -1;
  std::mutex mutex_;                               ///< guards the members below
  std::map<std::uint64_t, std::uint64_t> opened_;  ///< groups so far, by hash of their ranks
  std::map<std::uint64_t, Group> groups_;
  std::atomic<bool> has_streams_{false};
  int closing_ = 0;  ///< groups that are closing; progress thread
};

}  // namespace weft::detail
