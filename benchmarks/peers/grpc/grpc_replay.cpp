#include "benchmarks/peers/grpc/grpc_replay.hpp"

#include <grpcpp/grpcpp.h>

#include <stdexcept>
#include <thread>

namespace weft::bench {
namespace {

using Stream = grpc::ClientReaderWriter<Tensor, Tensor>;

/// A worker's open call to a server.
class Call {
 public:
  Call(Replayer::Stub& server, int rank, std::size_t model_bytes)
      : stream_(server.Steps(&context_)) {
    Tensor hello;
    hello.set_dtype(rank);
    hello.add_shape(static_cast<std::int64_t>(model_bytes));
    require(stream_->Write(hello));
  }

  void send(const float* gradient, std::size_t count) {
    Tensor message;
    message.set_content(gradient, count * sizeof(float));
    require(stream_->Write(message));
  }
  /// Valid until the next.
  const float* receive() {
    require(stream_->Read(&answer_));
    return reinterpret_cast<const float*>(answer_.content().data());
  }
  void end() {
    require(stream_->WritesDone());
    require(stream_->Finish().ok());
  }

 private:
  static void require(bool good) {
    if (!good) throw std::runtime_error("the call broke off");
  }

  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
  Tensor answer_;
};

}  // namespace

std::shared_ptr<ReplayServer> ReplayService::join(std::size_t model_bytes) {
  std::unique_lock lock(mutex_);
  if (++joined_ % 2 == 1) {
    shard_ = std::make_shared<ReplayServer>(model_of(model_bytes), rank_);
    both_.wait(lock, [&] { return joined_ % 2 == 0; });
  }
  both_.notify_all();
  return shard_;
}

grpc::Status ReplayService::Steps(grpc::ServerContext*,
                                  grpc::ServerReaderWriter<Tensor, Tensor>* stream) {
  Tensor message;
  if (!stream->Read(&message)) return grpc::Status::CANCELLED;
  const auto worker = static_cast<std::size_t>(message.dtype());
  const auto shard = join(static_cast<std::size_t>(message.shape(0)));
  Tensor answer;
  for (std::size_t i = 0; stream->Read(&message); i = (i + 1) % shard->parts()) {
    gradients_[worker].swap(*message.mutable_content());
    meeting_.arrive_and_wait();
    if (worker == 0)
      shard->apply(i, reinterpret_cast<const float*>(gradients_[0].data()),
                   reinterpret_cast<const float*>(gradients_[1].data()));
    meeting_.arrive_and_wait();
    const auto& parameters = shard->part(i);
    answer.set_content(parameters.data(), parameters.size() * sizeof(float));
    if (!stream->Write(answer)) return grpc::Status::CANCELLED;
  }
  return grpc::Status::OK;
}

std::vector<RunRow> replay_over_grpc(int rank,
                                     const std::array<std::shared_ptr<grpc::Channel>, 2>& servers,
                                     const RunOptions& options) {
  const std::array stubs{Replayer::NewStub(servers[0]), Replayer::NewStub(servers[1])};
  return replay_models(options, rank, [&](const Model& model, std::uint64_t, const auto& work) {
    Call calls[] = {{*stubs[0], rank, model.bytes()}, {*stubs[1], rank, model.bytes()}};
    const std::vector<Part> parts = parts_of(model);
    work([&](ReplayWorker& worker) {
      // Who only wrote would stop at last, as the servers wait for somebody to read.
      const auto take = [&](int server) {
        for (const Part& part : parts)
          if (part.server == server) worker.take(part, calls[server].receive());
      };
      const std::jthread readers[] = {std::jthread(take, 0), std::jthread(take, 1)};
      for (const Part& part : parts) calls[part.server].send(worker.gradient(part), part.count);
    });
    for (Call& call : calls) call.end();
  });
}

}  // namespace weft::bench
