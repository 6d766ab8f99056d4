// A tensor in one call of gRPC, in fig7: the caller's becomes a message, the receiver copies it out
// of the message into a tensor of its own, finds its largest element and answers.
#include <grpcpp/grpcpp.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/payload.hpp"
#include "benchmarks/peers/grpc/grpc_replay.hpp"
#include "benchmarks/peers/grpc/grpc_rows.hpp"
#include "benchmarks/peers/grpc/grpc_training.hpp"
#include "benchmarks/peers/introduction.hpp"
#include "benchmarks/run_protocol.hpp"
#include "benchmarks/statistics.hpp"
#include "benchmarks/transfer.hpp"
#include "transfer.grpc.pb.h"

namespace weft::bench {
namespace {

class LargestFinder final : public Receiver::Service {
 public:
  grpc::Status Take(grpc::ServerContext*, const Tensor* request, Largest* answer) override {
    const std::string& content = request->content();
    tensor_.resize(content.size() / sizeof(float));
    std::memcpy(tensor_.data(), content.data(), content.size());
    answer->set_value(largest(tensor_.data(), tensor_.size()));
    return grpc::Status::OK;
  }

 private:
  std::vector<float> tensor_;  // kept from call to call, as a training step's would be
};

double call(Receiver::Stub& receiver, const std::vector<float>& tensor, bool check) {
  Largest answer;
  const double spent = timed([&] {
    grpc::ClientContext context;
    Tensor message;
    message.set_dtype(1);
    message.add_shape(static_cast<std::int64_t>(tensor.size()));
    message.set_content(tensor.data(), tensor.size() * sizeof(float));
    const grpc::Status status = receiver.Take(&context, message, &answer);
    if (!status.ok()) throw std::runtime_error("the call failed: " + status.error_message());
  });
  if (check && answer.value() != largest(tensor.data(), tensor.size()))
    throw std::runtime_error("wrong data: " + std::to_string(tensor.size()) + " elements");
  return spent;
}

std::shared_ptr<grpc::Channel> channel_to(const std::string& said) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  const std::string port = said.substr(said.rfind(' ') + 1);
  return grpc::CreateCustomChannel(reachable(said) + ":" + port, grpc::InsecureChannelCredentials(),
                                   arguments);
}

std::vector<RunRow> measure(const std::shared_ptr<grpc::Channel>& channel,
                            const RunOptions& options) {
  if (options.benchmark == kPsSparse) return measure_rows(channel, options);
  if (options.benchmark == kPsDense) return measure_training(channel, options);
  const auto receiver = Receiver::NewStub(channel);
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes) {
    std::vector<float> tensor(size / sizeof(float));
    const auto samples = lead_transfers(
        options.budget, [](std::uint64_t) {},
        [&](std::uint64_t iteration) {
          fill_floats(tensor.data(), tensor.size(), iteration);
          return call(*receiver, tensor, options.check);
        });
    // The same call stands beside either of weft's ways.
    for (const std::string_view kind : {kByPut, kByView})
      rows.push_back({size, std::string(kind), {{"sendrecv", median(samples)}}, {}});
  }
  return rows;
}

/// Listens with all services on a port of the system's choice.
std::unique_ptr<grpc::Server> start(std::initializer_list<grpc::Service*> services, int& port) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("0.0.0.0:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  for (grpc::Service* service : services) builder.RegisterService(service);
  auto server = builder.BuildAndStart();
  if (server == nullptr) throw std::runtime_error("the server could not listen");
  return server;
}

int run(const RunOptions& options) {
  Introduction launcher;
  if (launcher.size() != 2) throw std::runtime_error("a run needs two ranks; start it with -n 2");
  LargestFinder finder;
  TrainingServer trainer;
  ReplayService replayer(launcher.rank());
  RowServer row_server;
  int port = 0;
  const auto server = start({&finder, &trainer, &replayer, &row_server}, port);
  const std::string place = own_address() + " " + std::to_string(port);
  const std::array channels{channel_to(launcher.hear_from(0, place)),
                            channel_to(launcher.hear_from(1, place))};
  std::vector<RunRow> rows;
  if (options.benchmark == kPsReplay)
    rows = replay_over_grpc(launcher.rank(), channels, options);
  else if (launcher.rank() == 0)
    rows = measure(channels[1], options);
  if (launcher.rank() == 0) {
    std::puts(to_line(rows).c_str());
    std::fflush(stdout);
  }
  launcher.meet();
  server->Shutdown();
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) try {
  return weft::bench::run(weft::bench::parse_run(argc, argv));
} catch (const std::exception& error) {
  std::fprintf(stderr, "peer-grpc: %s\n", error.what());
  return 1;
}
