#include "benchmarks/peers/zeromq/zeromq_group.hpp"

#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/transfer.hpp"
#include "benchmarks/peers/zeromq/socket.hpp"
#include "benchmarks/workloads/group_training.hpp"
#include "benchmarks/workloads/models.hpp"

namespace weft::bench {
namespace {

using Sockets = std::vector<std::unique_ptr<Socket>>;

std::string place_of(const std::string& places, int server, int worker) {
  return places + "-" + std::to_string(server) + "-" + std::to_string(worker);
}

/// Receives every worker's half, adds them all up in one pass, and sends the parameters to each
/// worker without a copy.
void serve_steps(const Sockets& workers, std::size_t count, std::uint64_t steps) {
  std::vector<float> parameters(count, 0.0F);
  for (std::uint64_t step = 0; step < steps; ++step) {
    Message gradients[kGroupWorkers];
    for (std::size_t w = 0; w < kGroupWorkers; ++w) gradients[w].receive(workers[w]->get());
    apply_gradients(parameters.data(),
                    {gradients[0].floats(), gradients[1].floats(), gradients[2].floats(),
                     gradients[3].floats()},
                    count);
    for (const auto& worker : workers)
      Message(parameters.data(), count * sizeof(float)).send(worker->get());
  }
  // Messages refer to `parameters`, so wait until all workers have read the last ones.
  for (const auto& worker : workers) Message().receive(worker->get());
}

RunRow work_steps(const Sockets& servers, int rank, std::size_t bytes, std::string_view kind,
                  std::uint64_t steps, bool check) {
  const std::size_t count = bytes / sizeof(float);
  std::vector<float> gradient(count);
  std::vector<float> own(kind == kByPull ? count : 0);
  ExpectedParameters expected;
  std::uint64_t step = 0;
  const auto one = [&] {
    ++step;
    fill_gradient(gradient.data(), count, gradient_of(step, rank));
    for (int worker = 0; worker < kGroupWorkers; ++worker) expected.add(gradient_of(step, worker));
    for (int server = 0; server < kGroupServers; ++server) {
      const Half half = half_of(count, server);
      Message(gradient.data() + half.first, half.count * sizeof(float))
          .send(servers[static_cast<std::size_t>(server)]->get());
    }
    for (int server = 0; server < kGroupServers; ++server) {
      const Half half = half_of(count, server);
      Message values;
      values.receive(servers[static_cast<std::size_t>(server)]->get());
      const float* from = values.floats();
      if (!own.empty()) {
        std::memcpy(own.data() + half.first, from, half.count * sizeof(float));
        from = own.data() + half.first;
      }
      touch(from, half.count * sizeof(float));
    }
  };
  for (std::uint64_t i = 0; i < kReplayWarmUp; ++i) one();
  const double spent = timed([&] {
    for (std::uint64_t i = 0; i < steps; ++i) one();
  });
  if (check && !expected.match(own.data(), own.size()))
    throw std::runtime_error("wrong data: a step of " + std::to_string(bytes) + " bytes");
  for (const auto& server : servers) Message().send(server->get());
  return {bytes, std::string(kind), {{"sendrecv", spent / static_cast<double>(steps)}}, {}};
}

}  // namespace

std::vector<RunRow> group_over_zeromq(int rank, const std::string& places,
                                      const RunOptions& options) {
  const bool serves = rank >= kGroupWorkers;
  const Context context;
  Sockets others;
  for (int other = 0; other < (serves ? kGroupWorkers : kGroupServers); ++other) {
    others.push_back(std::make_unique<Socket>(context, ZMQ_PAIR));
    if (serves)
      others.back()->bind(place_of(places, rank - kGroupWorkers, other));
    else
      others.back()->connect(place_of(places, other, rank));
  }
  std::vector<RunRow> rows;
  for (const std::size_t bytes : options.sizes)
    for (const std::string_view kind : {kByPull, kByView}) {
      const std::uint64_t steps = replayed_steps(kGroupWorkers * bytes, options.budget.count());
      if (serves)
        serve_steps(others, half_of(bytes / sizeof(float), rank - kGroupWorkers).count,
                    kReplayWarmUp + steps);
      else
        rows.push_back(work_steps(others, rank, bytes, kind, steps, options.check));
    }
  return rows;
}

}  // namespace weft::bench
