#include "benchmarks/peers/grpc/grpc_training.hpp"

#include <grpcpp/grpcpp.h>

#include <stdexcept>

#include "benchmarks/peers/training.hpp"

namespace weft::bench {

grpc::Status TrainingServer::Step(grpc::ServerContext*, const Tensor* gradient, Tensor* answer) {
  const std::string& content = gradient->content();
  const std::size_t count = content.size() / sizeof(float);
  if (count != parameters_.size()) parameters_.assign(count, 0.0F);
  apply_gradient(parameters_.data(), reinterpret_cast<const float*>(content.data()), count);
  answer->set_content(parameters_.data(), content.size());
  return grpc::Status::OK;
}

std::vector<RunRow> measure_training(const std::shared_ptr<grpc::Channel>& channel,
                                     const RunOptions& options) {
  const auto trainer = Trainer::NewStub(channel);
  std::vector<RunRow> rows;
  Tensor answer;
  for (const std::size_t size : options.sizes) {
    TrainingPeer peer(size, options);
    const auto more = peer.measure([&](const std::vector<float>& gradient) {
      grpc::ClientContext context;
      Tensor message;
      message.set_dtype(1);
      message.add_shape(static_cast<std::int64_t>(gradient.size()));
      message.set_content(gradient.data(), size);
      const grpc::Status status = trainer->Step(&context, message, &answer);
      if (!status.ok()) throw std::runtime_error("the call failed: " + status.error_message());
      return reinterpret_cast<const float*>(answer.content().data());
    });
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

}  // namespace weft::bench
