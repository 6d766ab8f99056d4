// Steps of four workers with two dedicated servers, against two ranks that do the same loads and
// stores without the other four.
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/harness/limit.hpp"
#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/require_data.hpp"
#include "benchmarks/harness/transfer.hpp"
#include "benchmarks/workloads/group_training.hpp"
#include "benchmarks/workloads/models.hpp"
#include "benchmarks/workloads/worker.hpp"
#include "weft/collective.hpp"
#include "weft/pslib.hpp"

namespace weft::bench {
namespace {

/// One row: a tensor size, and whether the parameters are pulled or read in place.
struct GroupWork {
  std::size_t bytes;
  std::string_view kind;
  std::uint64_t steps;

  std::string name() const { return std::to_string(bytes) + "." + std::string(kind); }
  std::size_t count() const { return bytes / sizeof(float); }
};

template <typename Step>
double time_of_a_step(const GroupWork& work, Step&& step) {
  for (std::uint64_t i = 0; i < kReplayWarmUp; ++i) step();
  const double spent = timed([&] {
    for (std::uint64_t i = 0; i < work.steps; ++i) step();
  });
  return spent / static_cast<double>(work.steps);
}

pslib::Table make_table(pslib::ParameterServer& server, const GroupWork& work) {
  const std::array<std::int64_t, 1> shape{static_cast<std::int64_t>(work.count())};
  // The mean of the gradients at a learning rate equal to their number is their sum.
  return server.table(work.name(), {{"w", Shape{std::span<const std::int64_t>(shape)}}},
                      pslib::Optimizer::sgd(static_cast<float>(kGroupWorkers)));
}

/// A worker's steps with weft.
class Trainer {
 public:
  Trainer(pslib::Table& table, const GroupWork& work, int rank)
      : table_(table),
        work_(work),
        rank_(rank),
        gradient_(table.gradient("w").as<float>()),
        parameters_(table.parameter("w").as<float>()) {}

  void step() {
    ++steps_;
    fill_gradient(gradient_.data(), gradient_.size(), gradient_of(steps_, rank_));
    for (int worker = 0; worker < kGroupWorkers; ++worker)
      expected_.add(gradient_of(steps_, worker));
    table_.push().or_throw();
    if (work_.kind == kByPull) {
      table_.pull().or_throw();
      touch(parameters_.data(), parameters_.size_bytes());
      return;
    }
    table_.wait_updated().or_throw();
    for (const pslib::ShardPiece& piece : table_.pieces()) {
      const auto bytes = table_.view_piece(piece).value().bytes();
      touch(bytes.data(), bytes.size());
    }
  }

  void check() const {
    if (work_.kind == kByPull)
      require_data(expected_.match(parameters_.data(), parameters_.size()), work_.bytes, steps_);
  }

 private:
  pslib::Table& table_;
  const GroupWork& work_;
  int rank_;
  std::span<float> gradient_;
  std::span<float> parameters_;
  std::uint64_t steps_ = 0;
  ExpectedParameters expected_;
};

/// By hand: each of two ranks is two workers and one server.
class BareGroup {
 public:
  BareGroup(World& world, const RunOptions& options, const GroupWork& work)
      : rank_(world.rank()),
        count_(work.count()),
        // The other ranks only wait; none of their memory is read.
        bare_(world, options, "bare." + work.name(),
              world.rank() < 2 ? 3 * count_ * sizeof(float) : 0),
        own_(work.kind == kByPull && world.rank() < 2 ? 2 * count_ : 0) {}

  void step() {
    ++steps_;
    auto* const mine = reinterpret_cast<float*>(bare_.data());
    const auto* const theirs = reinterpret_cast<const float*>(bare_.their_data());
    float* const parameters = mine + 2 * count_;
    for (int i = 0; i < 2; ++i)
      fill_gradient(mine + static_cast<std::size_t>(i) * count_, count_,
                    gradient_of(steps_, 2 * rank_ + i));
    meet();
    const Half half = half_of(count_, rank_);
    apply_gradients(parameters + half.first,
                    {mine + half.first, mine + count_ + half.first, theirs + half.first,
                     theirs + count_ + half.first},
                    half.count);
    meet();
    const Half other = half_of(count_, 1 - rank_);
    for (std::size_t worker = 0; worker < 2; ++worker) {
      read(worker, parameters, half);
      read(worker, theirs + 2 * count_, other);
    }
  }

 private:
  void meet() {
    raise_to(bare_.flags().announced, ++meetings_);
    await(bare_.their_flags().announced, meetings_, bare_.idle());
  }

  void read(std::size_t worker, const float* parameters, const Half& half) {
    const float* from = parameters + half.first;
    if (!own_.empty()) {
      float* const to = own_.data() + worker * count_ + half.first;
      std::memcpy(to, from, half.count * sizeof(float));
      from = to;
    }
    touch(from, half.count * sizeof(float));
  }

  int rank_;
  std::size_t count_;
  SharedMemory bare_;
  std::vector<float> own_;
  std::uint64_t steps_ = 0;
  std::uint64_t meetings_ = 0;
};

RunRow measure(World& world, pslib::ParameterServer& server, Collectives& all,
               const RunOptions& options, const GroupWork& work) {
  double weft = 0;
  {
    pslib::Table table = make_table(server, work);
    if (server.works()) {
      table.initialize().or_throw();
      Trainer trainer(table, work, world.rank());
      weft = time_of_a_step(work, [&] { trainer.step(); });
      if (options.check) trainer.check();
    } else {
      pslib::Table* const tables[] = {&table};
      server.serve(tables).or_throw();
    }
  }
  BareGroup bare(world, options, work);
  const double limit = world.rank() < 2 ? time_of_a_step(work, [&] { bare.step(); }) : 0;
  // The waiting ranks keep the memory that the two have attached to.
  all.run(barrier()).or_throw();
  RunRow row = compared(work.bytes, work.kind, {&weft, 1}, {&limit, 1});
  // Each worker sends a gradient and gets the parameters back.
  row.figures["GB_per_s"] =
      2e-3 * static_cast<double>(work.bytes) * static_cast<double>(kGroupWorkers) / weft;
  return row;
}

}  // namespace

std::vector<RunRow> measure_group(World& world, const RunOptions& options) {
  if (!share_memory(world))
    throw std::runtime_error(
        "ps_group measures ranks that share memory; these are on several hosts");
  pslib::ParameterServer server(world, {.dedicated_servers = kGroupServers}, "group");
  Collectives all = Collectives::open(world);
  std::vector<RunRow> rows;
  for (const std::size_t bytes : options.sizes)
    for (const std::string_view kind : {kByPull, kByView})
      rows.push_back(
          measure(world, server, all, options,
                  {bytes, kind, replayed_steps(kGroupWorkers * bytes, options.budget.count())}));
  return rows;
}

}  // namespace weft::bench
