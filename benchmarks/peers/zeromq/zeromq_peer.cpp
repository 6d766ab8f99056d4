// A training step over ZeroMQ: a request with the gradient, which is sent from where it lies; the
// server adds it to its parameters, which it sends from where they lie.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/peers/introduction.hpp"
#include "benchmarks/peers/training.hpp"
#include "benchmarks/peers/zeromq/socket.hpp"
#include "benchmarks/peers/zeromq/zeromq_replay.hpp"

namespace weft::bench {
namespace {

/// Adds what comes, until an empty message does. A size begins with parameters of 0.
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

int run(const RunOptions& options) {
  Introduction launcher;
  if (launcher.size() != 2) throw std::runtime_error("a run needs two ranks; start it with -n 2");
  // An abstract name: no file is left behind.
  const bool serves = launcher.rank() == 1;
  const std::string place =
      launcher.hear_from(1, "ipc://@weft-bench-" + std::to_string(::getpid()));
  const auto print = [](const std::vector<RunRow>& rows) {
    std::puts(to_line(rows).c_str());
    std::fflush(stdout);
  };
  if (options.benchmark == kPsReplay) {
    const auto rows = replay_over_zeromq(launcher.rank(), place, options);
    if (!serves) print(rows);
    launcher.meet();
    return 0;
  }
  const Context context;
  Socket socket(context, serves ? ZMQ_REP : ZMQ_REQ);
  if (serves) {
    socket.bind(place);
    serve(socket.get());
  } else {
    socket.connect(place);
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
