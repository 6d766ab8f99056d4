// The benchmark fig7 by gRPC: the caller puts its tensor into a message; the receiver finds the
// largest element in the message and answers.
#include <grpcpp/grpcpp.h>

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#if defined(WEFT_HAS_OPERATORS)
#include "benchmarks/convergence/course.hpp"
#endif
#include "benchmarks/harness/keep_memory.hpp"
#include "benchmarks/harness/payload.hpp"
#include "benchmarks/harness/run_protocol.hpp"
#include "benchmarks/harness/statistics.hpp"
#include "benchmarks/harness/transfer.hpp"
#include "benchmarks/peers/grpc/call.hpp"
#include "benchmarks/peers/grpc/grpc_graph.hpp"
#include "benchmarks/peers/grpc/grpc_replay.hpp"
#include "benchmarks/peers/grpc/grpc_rows.hpp"
#include "benchmarks/peers/grpc/grpc_training.hpp"
#include "benchmarks/peers/pmix_exchange.hpp"
#include "transfer.grpc.pb.h"

namespace weft::bench {
namespace {

class LargestFinder final : public Receiver::Service {
 public:
  grpc::Status Take(grpc::ServerContext*,
                    grpc::ServerReaderWriter<Largest, Tensor>* stream) override {
    Tensor request;
    Largest answer;
    while (stream->Read(&request)) {
      const std::string& content = request.content();
      answer.set_value(
          largest(reinterpret_cast<const float*>(content.data()), content.size() / sizeof(float)));
      if (!stream->Write(answer)) return grpc::Status::CANCELLED;
    }
    return grpc::Status::OK;
  }
};

double transfer(Call<Tensor, Largest>& call, const std::vector<float>& tensor, bool check) {
  float found = 0;
  const double spent = timed([&] {
    set_bytes(*call.request().mutable_content(), tensor.data(), tensor.size() * sizeof(float));
    found = call.exchange().value();
  });
  if (check && found != largest(tensor.data(), tensor.size()))
    throw std::runtime_error("wrong data: " + std::to_string(tensor.size()) + " elements");
  return spent;
}

/// Settings of both ends of a connection: unlimited message size, and HTTP/2's largest frame size.
/// gRPC's own probing finds a better flow-control window than a fixed one.
template <typename Set>
void set_for_large_messages(Set&& set) {
  constexpr int kLargestFrame = (1 << 24) - 1;
  set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1);
  set(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1);
  set(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kLargestFrame);
}

/// An abstract name: no file is left behind.
std::string own_place() { return "unix-abstract:weft-bench-" + std::to_string(::getpid()); }

/// Where the job's fabric is TCP within a host too, so that like is compared with like.
bool by_tcp() {
  const char* const fabric = std::getenv("WEFT_FABRIC");
  return fabric != nullptr && std::string_view(fabric) == "tcp";
}

/// Connects by a Unix socket on one host, by TCP between two. `said` is the server's host name,
/// address, Unix socket name and port.
std::shared_ptr<grpc::Channel> channel_to(const std::string& said) {
  grpc::ChannelArguments arguments;
  set_for_large_messages([&](const char* name, int value) { arguments.SetInt(name, value); });
  const std::string host = reachable(said);
  std::istringstream words(said.substr(said.find("unix-abstract:")));
  std::string near;
  std::string port;
  words >> near >> port;
  const bool is_near = host == "127.0.0.1" && !by_tcp();
  return grpc::CreateCustomChannel(is_near ? near : host + ":" + port,
                                   grpc::InsecureChannelCredentials(), arguments);
}

std::vector<RunRow> measure(const std::shared_ptr<grpc::Channel>& channel,
                            const RunOptions& options) {
  if (options.benchmark == kPsSparse) return measure_rows(channel, options);
  if (options.benchmark == kPsDense) return measure_training(channel, options);
  const auto receiver = Receiver::NewStub(channel);
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes) {
    if (size >= kMostMessage) continue;
    Call<Tensor, Largest> call(
        [&](grpc::ClientContext* context) { return receiver->Take(context); });
    std::vector<float> tensor(size / sizeof(float));
    call.request().set_dtype(1);
    call.request().add_shape(static_cast<std::int64_t>(tensor.size()));
    const auto samples = lead_transfers(
        options.budget, [](std::uint64_t) {},
        [&](std::uint64_t iteration) {
          fill_floats(tensor.data(), tensor.size(), iteration);
          return transfer(call, tensor, options.check);
        });
    call.end();
    // The same figure applies to all of weft's ways.
    for (const std::string_view kind : kKindsOfTransfer)
      rows.push_back({size, std::string(kind), {{"sendrecv", median(samples)}}, {}});
  }
  return rows;
}

/// Listens with all services on a port chosen by the system and on a Unix socket.
std::unique_ptr<grpc::Server> start(std::initializer_list<grpc::Service*> services, int& port) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("0.0.0.0:0", grpc::InsecureServerCredentials(), &port);
  builder.AddListeningPort(own_place(), grpc::InsecureServerCredentials());
  set_for_large_messages(
      [&](const char* name, int value) { builder.AddChannelArgument(name, value); });
  for (grpc::Service* service : services) builder.RegisterService(service);
  auto server = builder.BuildAndStart();
  if (server == nullptr) throw std::runtime_error("the server could not listen");
  return server;
}

void print(const std::vector<RunRow>& rows) {
  std::puts(to_line(rows).c_str());
  std::fflush(stdout);
}

std::string place_at(int port) {
  return own_address() + " " + own_place() + " " + std::to_string(port);
}

int run_graphs(int ranks, const GraphJob& job) {
  EdgeService service;
  int port = 0;
  const auto server = start({&service}, port);
  run_graphs_over_grpc(place_at(port), service, channel_to, ranks, job);
  server->Shutdown();
  return 0;
}

int run_graph(const RunOptions& options) {
  return run_graphs(2, [&](World& world, const dataflow::MakeWay& way) {
    const auto rows = replay_graph_over_grpc(world, way, options);
    if (!rows.empty()) print(rows);
  });
}

int run_training(const TrainingOptions& options) {
  keep_freed_memory();
  return run_graphs(options.ranks, [&](World& world, const dataflow::MakeWay& way) {
    const auto rows = train_over_grpc(world, way, options);
    if (!rows.empty()) print(rows);
  });
}

#if defined(WEFT_HAS_OPERATORS)
/// `words`: the example and the number of steps.
int run_course(const std::vector<std::string>& words) {
  keep_freed_memory();
  if (words.size() != 2) throw std::runtime_error("fig9 needs an example and a number of steps");
  return run_graphs(2, [&](World& world, const dataflow::MakeWay& way) {
    const Course course =
        train(world, subject_of(words[0]), std::stoi(words[1]),
              [&](World& on, const dataflow::Graph& graph, dataflow::Kernels kernels) {
                return dataflow::ExecutorAccess::make(
                    on, graph, std::move(kernels),
                    {.name = "fig9", .way = dataflow::EdgeWay::slots}, way);
              });
    if (world.rank() == 0) std::puts(to_line(course).c_str());
    std::fflush(stdout);
  });
}
#endif

int run(const RunOptions& options) {
  keep_freed_memory();
  if (options.benchmark == kGraphReplay) return run_graph(options);
  PmixExchange launcher;
  if (launcher.size() != 2) throw std::runtime_error("a run needs two ranks; start it with -n 2");
  LargestFinder finder;
  TrainingServer trainer;
  ReplayService replayer(launcher.rank());
  RowServer row_server;
  int port = 0;
  const auto server = start({&finder, &trainer, &replayer, &row_server}, port);
  const std::string place = place_at(port);
  const std::array channels{channel_to(launcher.hear_from(0, place)),
                            channel_to(launcher.hear_from(1, place))};
  std::vector<RunRow> rows;
  if (options.benchmark == kPsReplay)
    rows = replay_over_grpc(launcher.rank(), channels, options);
  else if (launcher.rank() == 0)
    rows = measure(channels[1], options);
  if (launcher.rank() == 0) print(rows);
  launcher.meet();
  server->Shutdown();
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) try {
#if defined(WEFT_HAS_OPERATORS)
  if (argc > 1 && std::string_view(argv[1]) == "fig9")
    return weft::bench::run_course({argv + 2, argv + argc});
#endif
  if (weft::bench::is_training(argc, argv))
    return weft::bench::run_training(weft::bench::parse_training(argc, argv));
  return weft::bench::run(weft::bench::parse_run(argc, argv));
} catch (const std::exception& error) {
  std::fprintf(stderr, "peer-grpc: %s\n", error.what());
  return 1;
}
