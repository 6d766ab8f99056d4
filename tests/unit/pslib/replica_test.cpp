// Replica sets of one shard while servers and workers die, are late, and learn of deaths at
// different times.
#include "pslib/replication/replica.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "pslib/replication/replica_sets.hpp"
#include "tests/seeds.hpp"

namespace weft::pslib {
namespace {

using Duty = Replica::Duty;
using Log = std::vector<RecordedPush>;

struct Plan {
  std::size_t servers = 3;
  std::size_t replicas = 2;
  std::size_t workers = 3;
  std::size_t server_kills = 0;
  std::size_t worker_kills = 0;
  std::uint64_t pushes = 8;
};

/// A shard whose state is the list of pushes in it. A seed draws the next event.
class Shard {
 public:
  Shard(std::uint64_t seed, const Plan& plan) : random_(seed), plan_(plan) {
    const std::vector<std::string> hosts(plan.servers, "host");
    hosts_ = hosts;
    groups_.emplace_back(plan.servers, true);
    replica_sets_.emplace_back(first_replica_sets(hosts_, 1, plan.replicas));
    for (std::size_t i = 0; i < plan.servers; ++i) servers_.emplace_back(i, plan);
    workers_.resize(plan.workers);
    links_.resize(plan.servers * plan.servers);
    for (std::size_t i = 0; i < plan.servers; ++i)
      servers_[i].replica.enter(0, replica_sets_[0].of_shard[0], true);
    for (std::size_t i = 0; i < plan.server_kills; ++i) deaths_.push_back(below(400));
    // A worker often dies together with a server of its host.
    for (std::size_t i = 0; i < plan.worker_kills; ++i)
      worker_deaths_.push_back(i < deaths_.size() && below(2) == 0 ? deaths_[i] : below(400));
  }

  /// Returns whether the run ends: every push of a live worker is acknowledged, or the servers that
  /// are left say that the shard is lost.
  bool run() {
    for (step_ = 0; step_ < 60'000; ++step_) {
      if (std::erase(deaths_, step_) > 0) kill_server();
      if (std::erase(worker_deaths_, step_) > 0) workers_[below(plan_.workers)].lives = false;
      if (is_said_lost_ || (is_over() && !is_lost())) return true;
      switch (below(5)) {
        case 0:
          work(below(plan_.workers));
          break;
        case 1:
          look(below(plan_.servers), below(plan_.workers));
          break;
        case 2:
          deliver(below(plan_.servers), below(plan_.servers));
          break;
        case 3:
          notice(below(plan_.servers));
          break;
        default:
          serve(below(plan_.servers));
      }
      if (testing::Test::HasFailure()) return true;
    }
    return false;
  }

  /// Requires that replicas with the whole state agree and hold every acknowledged push.
  void check_end() {
    for (const Server& server : servers_) {
      if (!server.lives || !server.replica.has_state()) continue;
      std::map<std::size_t, std::uint64_t> done;
      for (const RecordedPush& push : server.log)
        EXPECT_EQ(push.sequence, ++done[push.worker]) << "of worker " << push.worker;
      for (std::size_t w = 0; w < plan_.workers; ++w)
        EXPECT_GE(done[w], workers_[w].acknowledged) << "worker " << w << "'s push was lost";
    }
  }
  /// Whether no live server has the state.
  bool is_lost() const {
    return std::ranges::none_of(servers_,
                                [](const Server& s) { return s.lives && s.replica.has_state(); });
  }
  /// Whether all servers that had the whole state together are dead: the replicas of the last epoch
  /// whose primary knew that every one of them has the state.
  bool may_be_lost() const {
    return std::ranges::none_of(replica_sets_[settled_].of_shard[0],
                                [this](std::size_t s) { return servers_[s].lives; });
  }
  std::size_t epochs() const { return groups_.size(); }
  std::uint64_t fetches() const { return fetches_; }

 private:
  struct Server {
    Server(std::size_t self, const Plan& plan) : replica(self), taken(plan.workers, 0) {}
    Replica replica;
    bool lives = true;
    Log log;
    std::vector<std::uint64_t> taken;  // a worker's push that can be read here; 0: none
    Log offer;
    std::uint64_t offer_epoch = 0;
    bool has_published = false;
    std::uint64_t published_epoch = 0;
    Log published;
    std::uint64_t told = 0;  // revision
  };
  struct Worker {
    bool lives = true;
    std::uint64_t pushed = 0;
    std::uint64_t acknowledged = 0;
    std::uint64_t epoch = 0;
    Log seen;
  };

  std::size_t below(std::size_t most) { return random_() % most; }
  bool is_over() const {
    return deaths_.empty() && std::ranges::all_of(workers_, [&](const Worker& w) {
             return !w.lives || w.acknowledged == plan_.pushes;
           });
  }

  void kill_server() {
    const std::size_t victim = below(plan_.servers);
    if (std::ranges::count_if(servers_, [](const Server& s) { return s.lives; }) == 1) return;
    servers_[victim].lives = false;
    for (std::size_t to = 0; to < plan_.servers; ++to) {
      auto& link = links_[victim * plan_.servers + to];
      if (!link.empty()) link.resize(below(link.size() + 1));
    }
  }

  // A worker reads the published state, and pushes when its last push is in.
  void work(std::size_t w) {
    Worker& worker = workers_[w];
    if (!worker.lives) return;
    const Server& server = servers_[below(plan_.servers)];
    if (server.lives && server.has_published && server.published_epoch >= worker.epoch) {
      worker.epoch = server.published_epoch;
      EXPECT_GE(server.published.size(), worker.seen.size()) << "a version went back";
      EXPECT_TRUE(std::equal(worker.seen.begin(), worker.seen.end(), server.published.begin()))
          << "what was seen is not there any more";
      worker.seen = server.published;
      worker.acknowledged = std::max<std::uint64_t>(
          worker.acknowledged, std::ranges::count_if(worker.seen, [w](const RecordedPush& push) {
            return push.worker == w;
          }));
    }
    if (worker.acknowledged == worker.pushed && worker.pushed < plan_.pushes) ++worker.pushed;
  }

  // A server sees a worker's newest push; it sees a dead worker's push only if it saw the push
  // before.
  void look(std::size_t s, std::size_t w) {
    if (workers_[w].lives) servers_[s].taken[w] = workers_[w].pushed;
  }

  void deliver(std::size_t from, std::size_t to) {
    auto& link = links_[from * plan_.servers + to];
    if (link.empty()) return;
    const std::size_t passed_over = below(link.size());
    link.erase(link.begin(), link.begin() + static_cast<std::ptrdiff_t>(passed_over));
    if (servers_[to].lives) servers_[to].replica.receive(from, link.front());
    link.pop_front();
  }

  // A server goes on to the next epoch, and creates that epoch if no server has.
  void notice(std::size_t s) {
    Server& server = servers_[s];
    if (!server.lives || below(4) != 0) return;
    const auto epoch = static_cast<std::size_t>(server.replica.epoch());
    if (epoch + 1 == groups_.size()) {
      std::vector<bool> live;
      for (const Server& other : servers_) live.push_back(other.lives);
      if (live == groups_.back()) return;
      groups_.push_back(live);
      replica_sets_.push_back(
          next_replica_sets(replica_sets_.back(), epoch + 1, live, hosts_, plan_.replicas));
    }
    server.replica.enter(epoch + 1, replica_sets_[epoch + 1].of_shard[0]);
    tell(s);
  }

  void tell(std::size_t s) {
    Server& server = servers_[s];
    if (server.told == server.replica.revision()) return;
    server.told = server.replica.revision();
    for (std::size_t to = 0; to < plan_.servers; ++to)
      if (to != s) links_[s * plan_.servers + to].push_back(server.replica.message());
  }

  void serve(std::size_t s) {
    Server& server = servers_[s];
    if (!server.lives) return;
    Replica& replica = server.replica;
    switch (replica.duty()) {
      case Duty::none:
        if (replica.may_order()) order(server);
        break;
      case Duty::commit:
        server.has_published = true;
        server.published_epoch = replica.epoch();
        server.published = server.log;
        replica.committed();
        settled_ = std::max<std::size_t>(settled_, replica.epoch());
        break;
      case Duty::offer:
        server.offer = server.log;
        server.offer_epoch = replica.epoch();
        replica.offered();
        break;
      case Duty::apply:
        apply(server);
        break;
      case Duty::fetch: {
        const Server& from = servers_[replica.primary()];
        if (!from.lives || from.offer_epoch != replica.epoch()) break;
        server.log = from.offer;
        replica.fetched(number_of(server.log));
        ++fetches_;
        break;
      }
      case Duty::lost:
        EXPECT_TRUE(is_lost()) << "given up, and is not lost";
        is_said_lost_ = true;
    }
    tell(s);
  }

  // The number of the last record in `log`, by adding up the sizes of the records.
  std::uint64_t number_of(const Log& log) const {
    std::uint64_t number = 0;
    std::size_t at = 0;
    while (at < log.size()) at += sizes_.at(++number);
    return number;
  }

  void order(Server& server) {
    Log pushes;
    for (std::size_t w = 0; w < plan_.workers; ++w) {
      const auto done = static_cast<std::uint64_t>(
          std::ranges::count_if(server.log, [w](const auto& p) { return p.worker == w; }));
      if (server.taken[w] > done && below(2) == 0)
        pushes.push_back({w, server.taken[w], below(4) == 0});
    }
    if (pushes.empty()) return;
    server.replica.order(pushes);
    sizes_[server.replica.record().number] = pushes.size();
    tell_before_applying(server);
    put_in(server, pushes);
    server.replica.applied();
  }
  void tell_before_applying(const Server& server) {
    tell(static_cast<std::size_t>(&server - servers_.data()));
  }

  void apply(Server& server) {
    const Record record = server.replica.record();
    for (const RecordedPush& push : record.pushes) {
      if (server.taken[push.worker] == push.sequence) continue;
      if (workers_[push.worker].lives && workers_[push.worker].pushed >= push.sequence &&
          server.taken[push.worker] < push.sequence && below(8) != 0)
        return;  // it will be seen
      server.replica.could_not_apply();
      return;
    }
    put_in(server, record.pushes);
    server.replica.applied();
  }

  void put_in(Server& server, const Log& pushes) {
    for (const RecordedPush& push : pushes) {
      EXPECT_EQ(workers_[push.worker].pushed, push.sequence)
          << "worker " << push.worker << " writes its next gradients while the last are read";
      server.log.push_back(push);
    }
  }

  std::mt19937_64 random_;
  const Plan plan_;
  std::vector<std::string> hosts_;
  std::vector<std::vector<bool>> groups_;  // by epoch
  std::vector<ReplicaSets> replica_sets_;
  std::vector<Server> servers_;
  std::vector<Worker> workers_;
  std::vector<std::deque<ReplicaMessage>> links_;
  std::vector<std::size_t> deaths_;
  std::vector<std::size_t> worker_deaths_;
  std::map<std::uint64_t, std::size_t> sizes_;  // of records, by number
  std::size_t step_ = 0;
  std::size_t settled_ = 0;  // epoch
  bool is_said_lost_ = false;
  std::uint64_t fetches_ = 0;
};

/// Counts how shards went on.
struct Lives {
  std::uint64_t survived = 0;
  std::uint64_t lost = 0;
  std::uint64_t taken_over = 0;
  std::uint64_t fetched = 0;
};

void live(std::uint64_t seed, const Plan& plan, Lives& lives) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Shard shard(seed, plan);
  EXPECT_TRUE(shard.run()) << "nobody can go on";
  lives.taken_over += shard.epochs() - 1;
  lives.fetched += shard.fetches();
  if (shard.is_lost()) {
    EXPECT_TRUE(shard.may_be_lost()) << "lost, and who had all of it lives";
    ++lives.lost;
    return;
  }
  shard.check_end();
  ++lives.survived;
}

std::uint64_t seeds_here() {
  return tests::seeds(std::getenv("WEFT_TEST_FULL") != nullptr ? 200'000 : 20'000);
}

TEST(Replicas, LoseNoAcknowledgedPushAndApplyNoneTwice) {
  const std::uint64_t seeds = seeds_here();
  const std::uint64_t first = std::random_device{}() * std::uint64_t{1'000'000};
  Lives lives;
  for (std::uint64_t seed = first; seed < first + seeds && !testing::Test::HasFailure(); ++seed) {
    const std::size_t replicas = 2 + seed % 2;
    live(seed,
         {.servers = replicas + seed / 2 % 3,
          .replicas = replicas,
          .workers = 1 + seed % 4,
          .server_kills = seed / 3 % 4,
          .worker_kills = seed / 5 % 4},
         lives);
  }
  EXPECT_GT(lives.survived, seeds / 2);
  EXPECT_GT(lives.lost, 0) << "else nothing was tried that is hard";
  EXPECT_GT(lives.taken_over, seeds / 4);
  EXPECT_GT(lives.fetched, seeds / 4);
}

TEST(Replicas, SurviveOneServerWhateverWorkersDieWithIt) {
  const std::uint64_t seeds = seeds_here();
  const std::uint64_t first = std::random_device{}() * std::uint64_t{1'000'000};
  Lives lives;
  for (std::uint64_t seed = first; seed < first + seeds && !testing::Test::HasFailure(); ++seed)
    live(seed,
         {.servers = 2 + seed % 3,
          .replicas = 2,
          .workers = 1 + seed / 3 % 4,
          .server_kills = 1,
          .worker_kills = 1 + seed / 7 % 2},
         lives);
  EXPECT_EQ(lives.lost, 0);
  EXPECT_EQ(lives.survived, seeds);
}

TEST(ReplicaSets, LieOnOtherHostsWhereThereAreSeveral) {
  const std::vector<std::string> hosts{"a", "a", "b", "b"};
  const ReplicaSets first = first_replica_sets(hosts, 4, 2);
  EXPECT_EQ(first.of_shard,
            (std::vector<std::vector<std::size_t>>{{0, 2}, {1, 2}, {2, 0}, {3, 0}}));
}

TEST(ReplicaSets, TakeTheNextServerInADeadOnesPlace) {
  const std::vector<std::string> hosts(3, "a");
  const ReplicaSets first = first_replica_sets(hosts, 3, 2);
  const ReplicaSets next = next_replica_sets(first, 1, {false, true, true}, hosts, 2);
  EXPECT_EQ(next.of_shard, (std::vector<std::vector<std::size_t>>{{1, 2}, {1, 2}, {2, 1}}));
  const ReplicaSets last = next_replica_sets(next, 2, {false, false, true}, hosts, 2);
  EXPECT_EQ(last.of_shard, (std::vector<std::vector<std::size_t>>{{2}, {2}, {2}}));
}

}  // namespace
}  // namespace weft::pslib
