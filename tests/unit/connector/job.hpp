// Ranks of one process that reach each other by connectors alone.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "base/stats/stats_view.hpp"
#include "p2p/transport/wireup/connector.hpp"
#include "tests/support/soon.hpp"

namespace weft::p2p::tests {

using namespace std::chrono_literals;

inline Config settings() {
  return Config()
      .with(Setting::iface, "127.0.0.1")
      .with(Setting::init_timeout, "20s")
      .with(Setting::log, "off");
}

inline std::vector<std::byte> bytes(std::string_view text) {
  const auto all = std::as_bytes(std::span(text));
  return {all.begin(), all.end()};
}

/// A rank as the others know it.
struct KnownRank {
  ConnectorAddress connector;
  JobSecret job_secret{};
};

/// A rank with its own progress thread; records the events of its connector.
class Rank final : public ConnectorEvents {
 public:
  struct End {
    bool orderly = false;
    std::string why;
  };

  static constexpr int kSecret = 7;  ///< every byte of the job's

  /// The rank listens at once.
  Rank(int number, int size, const Config& config = settings())
      : local_({.rank = number,
                .size = size,
                .config = config,
                .log = std::make_shared<Log>(config, "here", number),
                .mapper = std::make_shared<SegmentMapper>(),
                .progress = &thread_,
                .sleeper = nullptr}),
        connector_(std::make_unique<Connector>(local_, thread_, *this, config)),
        is_met_(static_cast<std::size_t>(size)),
        said_(static_cast<std::size_t>(size)),
        ends_(static_cast<std::size_t>(size)) {
    address.job_secret.fill(static_cast<std::byte>(kSecret));
    address.connector = connector_->listen();
  }
  ~Rank() override { die(); }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  KnownRank address;
  std::atomic<bool> gave_up{false};  ///< a rank, for its silence

  void start(const std::vector<KnownRank>& job) {
    thread_.start();
    std::vector<ConnectorAddress> addresses;
    for (const KnownRank& known : job) addresses.push_back(known.connector);
    thread_.run([&] { connector_->open(addresses, job[0].job_secret); });
  }
  void connect(int rank) {
    thread_.run([&] { connector_->connect(rank); });
  }
  void call(int rank) {
    thread_.run([&] { connector_->call(rank); });
  }
  void connect_all() {
    thread_.run([&] {
      for (int r = 0; r < local_.size; ++r)
        if (r != local_.rank) connector_->connect(r);
    });
  }
  void call_for_data(int rank, int rail) {
    thread_.run([&] { connector_->call_for_data(rank, rail); });
  }
  void call_for_data_by(int rank, const std::vector<std::vector<IpAddress>>& networks) {
    thread_.run([&] { connector_->call_for_data_by(rank, networks); });
  }
  /// Why no connection for data came; empty if none was given up.
  std::string wait_unanswered(int rank, int rail) {
    wait([&] { return unanswered_.contains({rank, rail}); });
    const std::lock_guard lock(mutex_);
    const auto found = unanswered_.find({rank, rail});
    return found == unanswered_.end() ? "" : found->second;
  }
  /// nullptr if no connection came.
  DataConnection* wait_brought(int rank, int rail) {
    wait([&] { return brought_.contains({rank, rail}); });
    const std::lock_guard lock(mutex_);
    const auto found = brought_.find({rank, rail});
    return found == brought_.end() ? nullptr : &found->second;
  }
  std::size_t brought_count() {
    const std::lock_guard lock(mutex_);
    return brought_.size();
  }
  std::atomic<bool> hears_otherwise{false};
  void send(int rank, std::string_view text) {
    thread_.run([&] { send_here(rank, text); });
  }
  void close(int rank) {
    thread_.run([&] { close_here(rank); });
  }
  /// For the thread that holds the progress thread's lock.
  void send_here(int rank, std::string_view text) { connector_->send(rank, bytes(text)); }
  void close_here(int rank) { connector_->close(rank); }
  void drop_here(int rank) { connector_->drop(rank, "dropped"); }
  void drop(int rank) {
    thread_.run([&] { drop_here(rank); });
  }
  /// Leaves what a killed process leaves: connections that the kernel closes.
  void die() {
    thread_.stop();
    connector_.reset();
  }
  /// The counter as any process can read it.
  std::uint64_t rejected_connections() {
    return stats::StatsView::of(local_.stats->bytes()).totals().rejected_connections.load();
  }
  ProgressThread& thread() { return thread_; }

  bool wait_met(int rank) {
    return wait([&] { return is_met_[static_cast<std::size_t>(rank)] == 1; });
  }
  bool wait_all_met() {
    return wait([&] {
      int met = 0;
      for (const int times : is_met_) met += times == 1 ? 1 : 0;
      return met == local_.size - 1;
    });
  }
  std::optional<End> wait_end(int rank) {
    std::optional<End>& end = ends_[static_cast<std::size_t>(rank)];
    wait([&] { return end.has_value(); });
    return end;
  }
  bool has_ended(int rank) {
    const std::lock_guard lock(mutex_);
    return ends_[static_cast<std::size_t>(rank)].has_value();
  }
  /// The messages of the rank, once there are `messages` of them, or those so far when the wait
  /// times out.
  std::vector<std::string> wait_said(int rank, std::size_t messages) {
    auto& said = said_[static_cast<std::size_t>(rank)];
    wait([&] { return said.size() >= messages; });
    const std::lock_guard lock(mutex_);
    return said;
  }
  bool wait_short() {
    return wait([&] { return !shortages_.empty(); });
  }
  std::size_t shortages() {
    const std::lock_guard lock(mutex_);
    return shortages_.size();
  }
  bool wait_rejected(std::uint64_t least) {
    (void)weft::tests::soon([&] { return rejected_connections() >= least; }, 10s);
    return rejected_connections() == least;
  }

  void met(int rank) override {
    change([&] { ++is_met_[static_cast<std::size_t>(rank)]; });
  }
  void said(int rank, std::span<const std::byte> message) override {
    change([&] {
      said_[static_cast<std::size_t>(rank)].emplace_back(
          reinterpret_cast<const char*>(message.data()), message.size());
    });
  }
  void silent(int rank, const std::string& why) override {
    gave_up = true;
    ended(rank, false, why);
  }
  void ended(int rank, bool orderly, const std::string& why) override {
    change([&] {
      auto& end = ends_[static_cast<std::size_t>(rank)];
      EXPECT_FALSE(end.has_value()) << "rank " << rank << " ended twice";
      end = End{orderly, why};
    });
  }
  void brought(int rank, DataConnection connection) override {
    change([&] { brought_.emplace(std::pair(rank, connection.rail), std::move(connection)); });
  }
  void unanswered(int rank, int rail, const std::string& why) override {
    change([&] { unanswered_.emplace(std::pair(rank, rail), why); });
  }
  bool heard_otherwise(int) override { return hears_otherwise.load(); }
  void short_of(const Error& error) override {
    change([&] { shortages_.emplace_back(error.what()); });
  }

 private:
  template <typename Change>
  void change(const Change& make) {
    const std::lock_guard lock(mutex_);
    make();
    changed_.notify_all();
  }
  template <typename Condition>
  bool wait(const Condition& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 20s, condition);
  }

  ProgressThread thread_;
  LocalRank local_;
  std::unique_ptr<Connector> connector_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> is_met_;
  std::vector<std::vector<std::string>> said_;
  std::vector<std::optional<End>> ends_;
  std::map<std::pair<int, int>, DataConnection> brought_;
  std::map<std::pair<int, int>, std::string> unanswered_;
  std::vector<std::string> shortages_;
};

/// Ranks that listen; start() gives each the others' addresses.
class Job {
 public:
  explicit Job(int size, const Config& config = settings()) {
    for (int r = 0; r < size; ++r) ranks_.push_back(std::make_unique<Rank>(r, size, config));
  }

  Rank& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  auto begin() { return ranks_.begin(); }
  auto end() { return ranks_.end(); }

  std::vector<KnownRank> addresses() const {
    std::vector<KnownRank> all;
    for (const auto& rank : ranks_) all.push_back(rank->address);
    return all;
  }
  /// `known`: the addresses that the ranks get; by default the true ones.
  void start(const std::vector<KnownRank>& known) {
    for (const auto& rank : ranks_) rank->start(known);
  }
  void start() { start(addresses()); }
  void connect() {
    start();
    for (const auto& rank : ranks_) rank->connect_all();
    for (const auto& rank : ranks_) EXPECT_TRUE(rank->wait_all_met());
  }

 private:
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace weft::p2p::tests
