// A training step over ZeroMQ: the worker's request holds the gradient; the server adds it to its
// parameters and sends them back. Both are sent without a copy.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/harness/keep_memory.hpp"
#include "benchmarks/peers/pmix_exchange.hpp"
#include "benchmarks/peers/training.hpp"
#include "benchmarks/peers/zeromq/socket.hpp"
#include "benchmarks/peers/zeromq/zeromq_group.hpp"
#include "benchmarks/peers/zeromq/zeromq_replay.hpp"
#include "benchmarks/workloads/group_training.hpp"

namespace weft::bench {
namespace {

/// Adds each gradient received, until an empty message. Each size starts with parameters of 0.
void serve(void* socket) {
  std::vector<float> parameters;
  Message gradient;
  for (;;) {
    gradient.receive(socket);
    if (gradient.bytes() == 0) break;
    const std::size_t count = gradient.bytes() / sizeof(float);
    if (count != parameters.size()) parameters.assign(count, 0.0F);
    apply_gradient(parameters.data(), gradient.floats(), count);
    Message(parameters.data(), gradient.bytes()).send(socket);
  }
  Message().send(socket);
}

std::vector<RunRow> work(void* socket, const RunOptions& options) {
  std::vector<RunRow> rows;
  Message answer;
  for (const std::size_t size : options.sizes) {
    TrainingPeer peer(size, options);
    const auto more = peer.measure([&](std::vector<float>& gradient) {
      Message(gradient.data(), size).send(socket);
      answer.receive(socket);
      return answer.floats();
    });
    rows.insert(rows.end(), more.begin(), more.end());
  }
  Message().send(socket);
  answer.receive(socket);
  return rows;
}

/// An abstract name: no file is left behind.
std::string own_place() { return "ipc://@weft-bench-" + std::to_string(::getpid()); }

/// The server's endpoint, chosen from its announcement: host, address, and an endpoint of either
/// kind.
std::string place_in(const std::string& said) {
  const std::string host = reachable(said);
  std::istringstream words(said.substr(said.find("ipc:")));
  std::string near;
  std::string far;
  words >> near >> far;
  return host == "127.0.0.1" ? near : "tcp://" + host + far.substr(far.rfind(':'));
}

int run(const RunOptions& options) {
  keep_freed_memory();
  PmixExchange launcher;
  if (launcher.size() != options.ranks)
    throw std::runtime_error("a run needs as many ranks as --ranks says; start it with mpirun -n");
  const auto print = [](const std::vector<RunRow>& rows) {
    std::puts(to_line(rows).c_str());
    std::fflush(stdout);
  };
  if (options.benchmark == kPsReplay) {
    const std::string place = launcher.hear_from(1, own_place());
    const auto rows = replay_over_zeromq(launcher.rank(), place, options);
    if (launcher.rank() == 0) print(rows);
    launcher.meet();
    return 0;
  }
  if (options.benchmark == kPsGroup) {
    const std::string place = launcher.hear_from(kGroupWorkers, own_place());
    const auto rows = group_over_zeromq(launcher.rank(), place, options);
    if (launcher.rank() == 0) print(rows);
    launcher.meet();
    return 0;
  }
  const bool serves = launcher.rank() == 1;
  const Context context;
  Socket socket(context, serves ? ZMQ_REP : ZMQ_REQ);
  // A Unix socket on one host, TCP between two.
  std::string said = own_address();
  if (serves) {
    socket.bind(own_place());
    said += " " + socket.place();
    socket.bind("tcp://0.0.0.0:*");
    said += " " + socket.place();
  }
  said = launcher.hear_from(1, said);
  if (serves) {
    serve(socket.get());
  } else {
    socket.connect(place_in(said));
    print(work(socket.get(), options));
  }
  launcher.meet();
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) try {
  return weft::bench::run(weft::bench::parse_run(argc, argv));
} catch (const std::exception& error) {
  std::fprintf(stderr, "peer-zeromq: %s\n", error.what());
  return 1;
}
