// A job of many ranks, each on a path of its own to every other: the memory and the messages of a
// rank for its first collectives, a dense table's step, and the agreement on a death.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/simulated_job.hpp"
#include "weft/collective.hpp"
#include "weft/pslib.hpp"

namespace weft::tests {
namespace {

constexpr int kServers = 4;
constexpr std::int64_t kElements = 4096;  // of the table's only tensor

std::uint64_t resident_bytes() {
  std::uint64_t pages = 0;
  std::ifstream statm("/proc/self/statm");
  statm >> pages >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

/// Control messages that this rank has sent.
std::uint64_t messages_of(const World& world) {
  std::uint64_t messages = 0;
  for (const PathReport& path : world.report().paths) messages += path.counters.control_messages;
  return messages;
}

/// The costs of a phase of the job.
struct Phase {
  std::uint64_t bytes = 0;     ///< resident, of the whole job, at most
  std::uint64_t messages = 0;  ///< of the rank that sent the most
  double at = 0;               ///< seconds of simulated time
};

class ManyRanks {
 public:
  explicit ManyRanks(int size)
      : size_(size), victim_(size / 2), job_(size, options(), simulated_settings()) {}

  void run() {
    before_ = resident_bytes();
    const SimOutcome outcome = job_.run([this](World& world) { live(world); });
    EXPECT_TRUE(outcome.failures.empty()) << outcome.text;
    EXPECT_EQ(outcome.killed, std::vector{victim_});
    EXPECT_EQ(agreed_, size_ - 1);
    for (const auto& [name, phase] : phases_)
      std::cout << fmt::format("{} ranks, {}: {} KiB a rank, at most {} messages of a rank, {} s\n",
                               size_, name, phase.bytes / 1024 / ranks(), phase.messages, phase.at);
  }

  /// Resident bytes a rank.
  std::uint64_t bytes(const std::string& phase) const { return phases_.at(phase).bytes / ranks(); }
  /// Control messages of the rank that sent the most in this phase.
  std::uint64_t messages(const std::string& phase) const { return phases_.at(phase).messages; }

 private:
  static SimOptions options() {
    SimOptions options;
    options.event_limit = 1'000'000'000;
    return options;
  }
  std::uint64_t ranks() const { return static_cast<std::uint64_t>(size_); }

  void live(World& world) {
    std::uint64_t sent = 0;
    end_phase(world, "1 join", sent);
    {
      Collectives group = Collectives::open(world);
      end_phase(world, "2 open", sent);
      reduce(world, group);
      end_phase(world, "3 collectives", sent);
    }
    train(world, sent);
    ++trained_;
    while (trained_ < size_) job_.sleep(world, std::chrono::milliseconds(1));
    job_.sleep(world, std::chrono::milliseconds(20));  // until what closed the table has been sent
    end_phase(world, "6 end of the table", sent);
    agree(world);
    end_phase(world, "7 agreement", sent);
  }

  void reduce(World& world, Collectives& group) const {
    group.run(barrier()).or_throw();
    const Tensor tensor = world.allocate(DType::i32, {1000});
    const auto values = tensor.as<std::int32_t>();
    std::ranges::fill(values, world.rank());
    group.run(all_reduce(tensor, Reduction::sum)).or_throw();
    EXPECT_TRUE(std::ranges::all_of(values, [&](int v) { return v == size_ * (size_ - 1) / 2; }));
  }

  void train(World& world, std::uint64_t& sent) {
    pslib::ParameterServer server(world, {.dedicated_servers = kServers});
    pslib::Table table =
        server.table("model", {{"t", Shape{kElements}}}, pslib::Optimizer::sgd(1.0F));
    // The servers attach to every worker.
    end_phase(world, server.works() ? "4 table" : "4 table, server", sent);
    if (!server.works()) {
      pslib::Table* const tables[] = {&table};
      return server.serve(tables).or_throw();
    }
    table.initialize().or_throw();
    std::ranges::fill(table.gradient("t").as<float>(), 1.0F);
    table.push_pull().or_throw();
    EXPECT_EQ(table.version(), 1U);
    const auto parameters = table.parameter("t").as<float>();
    EXPECT_TRUE(std::ranges::all_of(parameters, [&](float v) { return v == parameters[0]; }));
    EXPECT_LT(parameters[0], 0.0F);
    end_phase(world, "5 step", sent);
  }

  void agree(World& world) {
    if (world.rank() == victim_) job_.kill(world);
    const std::array dead{victim_};
    while (world.alive(dead).ok()) job_.sleep(world, std::chrono::milliseconds(1));
    const Group group = world.group().shrink().value();
    EXPECT_EQ(group.size(), size_ - 1);
    EXPECT_EQ(group.place_of(victim_), -1);
    ++agreed_;
  }

  /// Counts what this rank has sent since `sent`, at some ranks: a report is long.
  void end_phase(const World& world, const std::string& name, std::uint64_t& sent) {
    Phase& phase = phases_[name];
    const int some = std::max(1, size_ / 32);
    if (world.rank() % some != 0 && world.rank() != size_ - 1) return;
    phase.bytes = std::max(phase.bytes, resident_bytes() - std::min(resident_bytes(), before_));
    phase.at = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
    const std::uint64_t now = messages_of(world);
    phase.messages = std::max(phase.messages, now - sent);
    sent = now;
  }

  const int size_;
  const int victim_;
  std::uint64_t before_ = 0;
  int trained_ = 0;
  int agreed_ = 0;
  std::map<std::string, Phase> phases_;
  SimJob job_;
};

/// A cost of a rank by N, the number of ranks, and L, the rounds of a dissemination among them.
struct Cost {
  const char* name;     ///< of its row in docs/scaling.md
  const char* formula;  ///< as that row prints it
  double (*at)(double n, double l);
  double measured;
  bool is_memory;
};

constexpr double kKiB = 1024;

double rounds_of(double ranks) { return std::ceil(std::log2(ranks)); }

std::vector<Cost> costs(const ManyRanks& job) {
  const auto bytes = [&](const char* phase) { return static_cast<double>(job.bytes(phase)); };
  const auto messages = [&](const char* phase) { return static_cast<double>(job.messages(phase)); };
  return {
      {"resident when joined, most of it peers", "2.3 KiB N + 120 KiB",
       [](double n, double) { return (2.3 * n + 120) * kKiB; }, bytes("2 open"), true},
      {"more for its first collectives: links, stacks, chunks", "about 50 KiB for each of ⌈log₂ N⌉",
       [](double, double l) { return 50 * l * kKiB; }, bytes("3 collectives") - bytes("2 open"),
       true},
      {"more for the table, its step and the agreement", "35 KiB + 68 N bytes",
       [](double n, double) { return 35 * kKiB + 68 * n; },
       bytes("7 agreement") - bytes("3 collectives"), true},
      {"messages to open the group", "⌈log₂ N⌉", [](double, double l) { return l; },
       messages("2 open"), false},
      {"messages of its first barrier and all_reduce", "at most 9 ⌈log₂ N⌉",
       [](double, double l) { return 9 * l; }, messages("3 collectives"), false},
      {"messages of a worker: closing the group, creating the table", "at most 10 ⌈log₂ N⌉",
       [](double, double l) { return 10 * l; }, messages("4 table"), false},
      {"the same of a server, which attaches to every worker", "5 N",
       [](double n, double) { return 5 * n; }, messages("4 table, server"), false},
      {"messages of a worker for the first step", "12", [](double, double) { return 12.0; },
       messages("5 step"), false},
      {"messages of a server that closes the table", "2 N", [](double n, double) { return 2 * n; },
       messages("6 end of the table"), false},
      {"messages of the rank that leads an agreement", "at most 3 + 3 × 8",
       [](double, double) { return 27.0; }, messages("7 agreement"), false},
  };
}

/// The cells of the row of docs/scaling.md whose first cell is `name`.
std::vector<std::string> row_of(const std::string& name) {
  std::ifstream file(WEFT_SCALING);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| " + name + " |")) continue;
    std::vector<std::string> cells;
    for (std::size_t at = 2, end; (end = line.find(" |", at)) != std::string::npos; at = end + 3)
      cells.push_back(line.substr(at, end - at));
    return cells;
  }
  return {};
}

/// The number in a cell such as "5 137", "2.3 MiB".
double number_in(std::string cell) {
  const double unit = cell.ends_with("MiB") ? kKiB * kKiB : cell.ends_with("KiB") ? kKiB : 1;
  std::erase(cell, ' ');
  return std::atof(cell.c_str()) * unit;
}

/// Compares the cost with its formula, and both with the row of the documentation.
void expect_in_table(const Cost& cost, double ranks) {
  SCOPED_TRACE(cost.name);
  const std::vector<std::string> row = row_of(cost.name);
  ASSERT_EQ(row.size(), 6U) << "name, formula, and 128, 1 024, 1 000 and 10 000 ranks";
  EXPECT_EQ(row[1], cost.formula);
  const double printed = number_in(row[ranks == 128 ? 2 : 3]);
  EXPECT_LE(cost.measured, 1.2 * cost.at(ranks, rounds_of(ranks)));
  EXPECT_NEAR(cost.measured, printed, 0.2 * printed);
  EXPECT_NEAR(number_in(row[4]), cost.at(1000, 10), 0.06 * cost.at(1000, 10));
  EXPECT_NEAR(number_in(row[5]), cost.at(10'000, 14), 0.06 * cost.at(10'000, 14));
}

TEST(SimulatedManyRanks, NeedMemoryAndMessagesAsTheTableOfTheDocumentationSays) {
  const int size = std::getenv("WEFT_TEST_FULL") != nullptr ? 1024 : 128;
  const std::clock_t begin = std::clock();
  ManyRanks job(size);
  job.run();
  // The processor time of the only thread: other programs don't count.
  EXPECT_LT(std::clock() - begin, 120 * CLOCKS_PER_SEC);
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__)
  constexpr bool kComparesMemory = true;  // the table's is that of the optimized program
  EXPECT_LT(job.bytes("7 agreement") * static_cast<std::uint64_t>(size), std::uint64_t{16} << 30U);
#else
  constexpr bool kComparesMemory = false;
#endif
  for (const Cost& cost : costs(job))
    if (kComparesMemory || !cost.is_memory) expect_in_table(cost, size);
}

/// A job all of whose ranks work and serve.
struct AllServe {
  explicit AllServe(int size)
      : ranks(size), job(size, {.event_limit = 1'000'000'000}, simulated_settings()) {}

  void run() {
    const SimOutcome outcome = job.run([this](World& world) { live(world); });
    EXPECT_TRUE(outcome.failures.empty()) << outcome.text;
    EXPECT_EQ(trained, ranks);
    std::cout << fmt::format(
        "{} ranks that all serve: at most {} messages for the table, {} for a step\n", ranks, table,
        step);
  }

  void live(World& world) {
    pslib::ParameterServer server(world);
    pslib::Table parameters =
        server.table("model", {{"t", Shape{16 * kElements}}}, pslib::Optimizer::sgd(1.0F));
    await_all(world, made);
    const std::uint64_t created = messages_of(world);
    table = std::max(table, created);
    parameters.initialize().or_throw();
    std::ranges::fill(parameters.gradient("t").as<float>(), 1.0F);
    parameters.push_pull().or_throw();
    const auto values = parameters.parameter("t").as<float>();
    EXPECT_TRUE(std::ranges::all_of(values, [&](float v) { return v == values[0]; }));
    EXPECT_LT(values[0], 0.0F);
    await_all(world, trained);
    step = std::max(step, messages_of(world) - created);
  }

  /// Waits until all ranks have come here.
  void await_all(World& world, int& come) {
    ++come;
    while (come < ranks) job.sleep(world, std::chrono::milliseconds(1));
  }

  const int ranks;
  SimJob job;
  int made = 0;
  int trained = 0;
  std::uint64_t table = 0;  ///< messages of the rank that sent the most to create the table
  std::uint64_t step = 0;   ///< the same for the first step
};

TEST(SimulatedManyRanks, MayAllServeATable) {
  const bool is_long = std::getenv("WEFT_TEST_FULL") != nullptr;
  AllServe job(is_long ? 256 : 48);
  job.run();
  const std::vector<std::string> row =
      row_of("messages of a rank to create a table that all serve");
  ASSERT_EQ(row.size(), 5U) << "name, formula, and 48, 256 and 1 000 ranks";
  const double ranks = job.ranks;
  const double printed = number_in(row[is_long ? 3 : 2]);
  EXPECT_EQ(row[1], "8 N");
  EXPECT_NEAR(static_cast<double>(job.table), printed, 0.2 * printed);
  EXPECT_LE(static_cast<double>(job.table), 1.2 * 8 * ranks);
  EXPECT_EQ(number_in(row[4]), 8000);
  EXPECT_LE(static_cast<double>(job.step), 2 * ranks) << "chunks are told of on first use";
}

TEST(SimulatedManyRanks, AllNameTheOneThatDoesNotOpenAGroup) {
  constexpr int kRanks = 40;
  for (const int missing : {0, 7, kRanks - 1}) {
    int named = 0;
    SimJob job(kRanks, {}, simulated_settings());
    const SimOutcome outcome = job.run([&](World& world) {
      const auto open = [&] {
        const Collectives group =
            Collectives::open(world, Deadline::after(std::chrono::seconds(5)));
      };
      if (world.rank() == missing) return job.sleep(world, std::chrono::seconds(6));
      try {
        open();
        ADD_FAILURE() << "opened without rank " << missing;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::timeout);
        EXPECT_EQ(error.detail().peer, missing) << "rank " << world.rank() << ": " << error.what();
        ++named;
      }
      job.sleep(world, std::chrono::seconds(2));
    });
    EXPECT_TRUE(outcome.failures.empty()) << outcome.text;
    EXPECT_EQ(named, kRanks - 1);
  }
}

TEST(SimulatedManyRanks, AllSeeThatOneDescribesATableDifferently) {
  constexpr int kRanks = 21;
  constexpr int kOdd = 13;
  int seen = 0;
  run_simulated(kRanks, [&](World& world) {
    pslib::ParameterServer server(world, {.dedicated_servers = 2});
    const bool is_odd = world.rank() == kOdd;
    try {
      (void)server.table("model", {{"t", Shape{64}}}, pslib::Optimizer::sgd(is_odd ? 0.5F : 0.25F));
      ADD_FAILURE() << "rank " << world.rank() << " has the table";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::mismatch) << error.what();
      EXPECT_EQ(error.detail().peer == kOdd, !is_odd) << error.what();
      EXPECT_NE(std::string(error.what()).find("0.5"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("0.25"), std::string::npos) << error.what();
      ++seen;
    }
  });
  EXPECT_EQ(seen, kRanks);
}

TEST(SimulatedManyRanks, OneMayLeaveWhileOthersStillOpenTheGroup) {
  constexpr int kRanks = 12;
  SimOptions options;
  options.faults.delayed = 0.3;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    options.seed = seed;
    int opened = 0;
    SimJob job(kRanks, options, simulated_settings());
    const SimOutcome outcome = job.run([&](World& world) {
      (void)Collectives::open(world);
      ++opened;
      if (world.rank() != 3) job.sleep(world, std::chrono::seconds(3));
    });
    EXPECT_TRUE(outcome.failures.empty()) << outcome.text;
    EXPECT_EQ(opened, kRanks);
  }
}

TEST(SimulatedManyRanks, AMemberThatClosesTheGroupEndsCallsThatNeedIt) {
  int ended = 0;
  SimJob job(3, {}, simulated_settings());
  const SimOutcome outcome = job.run([&](World& world) {
    {
      Collectives group = Collectives::open(world);
      if (world.rank() != 2) {
        const Status status = group.run(barrier());
        EXPECT_EQ(status.code(), Code::closed) << status.text();
        EXPECT_EQ(status.detail().peer, 2) << status.text();
        ++ended;
      }
    }
    job.sleep(world, std::chrono::seconds(1));
  });
  EXPECT_TRUE(outcome.failures.empty()) << outcome.text;
  EXPECT_EQ(ended, 2);
}

}  // namespace
}  // namespace weft::tests
