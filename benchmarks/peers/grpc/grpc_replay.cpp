#include "benchmarks/peers/grpc/grpc_replay.hpp"

#include <grpcpp/grpcpp.h>

#include <thread>

#include "benchmarks/peers/grpc/call.hpp"

namespace weft::bench {
namespace {

using ReplayCall = Call<Tensor, Tensor>;

/// Opens a call to `server`, and sends the worker and the model.
std::unique_ptr<ReplayCall> open_call(Replayer::Stub& server, int rank, std::size_t model_bytes) {
  auto call = std::make_unique<ReplayCall>(
      [&](grpc::ClientContext* context) { return server.Steps(context); });
  call->request().set_dtype(rank);
  call->request().add_shape(static_cast<std::int64_t>(model_bytes));
  call->send();
  call->request().Clear();
  return call;
}

const float* floats(const Tensor& message) {
  return reinterpret_cast<const float*>(message.content().data());
}

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
    set_bytes(*answer.mutable_content(), parameters.data(), parameters.size() * sizeof(float));
    if (!stream->Write(answer)) return grpc::Status::CANCELLED;
  }
  return grpc::Status::OK;
}

std::vector<RunRow> replay_over_grpc(int rank,
                                     const std::array<std::shared_ptr<grpc::Channel>, 2>& servers,
                                     const RunOptions& options) {
  const std::array stubs{Replayer::NewStub(servers[0]), Replayer::NewStub(servers[1])};
  return replay_models(options, rank, [&](const Model& model, std::uint64_t, const auto& work) {
    const std::array calls{open_call(*stubs[0], rank, model.bytes()),
                           open_call(*stubs[1], rank, model.bytes())};
    const auto call_to = [&](int server) -> ReplayCall& {
      return *calls[static_cast<std::size_t>(server)];
    };
    const std::vector<Part> parts = parts_of(model);
    work([&](ReplayWorker& worker) {
      // Answers must be read while writing: otherwise the servers block until their answers are
      // read.
      const auto take = [&](int server) {
        for (const Part& part : parts)
          if (part.server == server) worker.take(part, floats(call_to(server).receive()));
      };
      const std::jthread readers[] = {std::jthread(take, 0), std::jthread(take, 1)};
      for (const Part& part : parts) {
        ReplayCall& call = call_to(part.server);
        set_bytes(*call.request().mutable_content(), worker.gradient(part),
                  part.count * sizeof(float));
        call.send();
      }
    });
    for (const auto& call : calls) call->end();
  });
}

}  // namespace weft::bench
