#include "benchmarks/peers/zeromq/zeromq_replay.hpp"

#include <array>
#include <thread>

#include "benchmarks/peers/replay.hpp"
#include "benchmarks/peers/zeromq/socket.hpp"

namespace weft::bench {
namespace {

std::string place_of(const std::string& places, int server, int worker) {
  return places + "-" + std::to_string(server) + "-" + std::to_string(worker);
}

/// A pair of sockets per (server, worker): parts travel in order and without a copy.
class Server {
 public:
  Server(const Context& context, const std::string& places, int rank)
      : rank_(rank), workers_{Socket(context, ZMQ_PAIR), Socket(context, ZMQ_PAIR)} {
    for (int worker = 0; worker < 2; ++worker)
      workers_[static_cast<std::size_t>(worker)].bind(place_of(places, rank, worker));
  }

  void serve(const Model& model, std::uint64_t steps) {
    ReplayServer shard(model, rank_);
    for (std::uint64_t step = 0; step < steps; ++step)
      for (std::size_t i = 0; i < shard.parts(); ++i) {
        Message gradients[2];
        for (std::size_t w = 0; w < 2; ++w) gradients[w].receive(workers_[w].get());
        shard.apply(i, gradients[0].floats(), gradients[1].floats());
        auto& parameters = shard.part(i);
        for (std::size_t w = 0; w < 2; ++w)
          Message(parameters.data(), parameters.size() * sizeof(float)).send(workers_[w].get());
      }
    // Messages refer to the parameters, so wait until both workers have read the last ones.
    for (std::size_t w = 0; w < 2; ++w) Message().receive(workers_[w].get());
  }

 private:
  int rank_;
  std::array<Socket, 2> workers_;
};

}  // namespace

std::vector<RunRow> replay_over_zeromq(int rank, const std::string& places,
                                       const RunOptions& options) {
  const Context context;
  Server server(context, places, rank);
  std::array<Socket, 2> servers{Socket(context, ZMQ_PAIR), Socket(context, ZMQ_PAIR)};
  for (int i = 0; i < 2; ++i)
    servers[static_cast<std::size_t>(i)].connect(place_of(places, i, rank));
  const auto socket_of = [&](const Part& part) {
    return servers[static_cast<std::size_t>(part.server)].get();
  };
  return replay_models(
      options, rank, [&](const Model& model, std::uint64_t total, const auto& work) {
        const std::jthread serving([&] { server.serve(model, total); });
        const std::vector<Part> parts = parts_of(model);
        work([&](ReplayWorker& worker) {
          for (const Part& part : parts)
            Message(worker.gradient(part), part.count * sizeof(float)).send(socket_of(part));
          Message values;
          for (const Part& part : parts) {
            values.receive(socket_of(part));
            worker.take(part, values.floats());
          }
        });
        for (Socket& socket : servers) Message().send(socket.get());
      });
}

}  // namespace weft::bench
