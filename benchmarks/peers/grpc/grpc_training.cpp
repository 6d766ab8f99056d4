#include "benchmarks/peers/grpc/grpc_training.hpp"

#include <grpcpp/grpcpp.h>

#include "benchmarks/peers/grpc/call.hpp"
#include "benchmarks/peers/training.hpp"

namespace weft::bench {

grpc::Status TrainingServer::Steps(grpc::ServerContext*,
                                   grpc::ServerReaderWriter<Tensor, Tensor>* stream) {
  Tensor gradient;
  Tensor parameters;
  while (stream->Read(&gradient)) {
    const std::string& content = gradient.content();
    std::string& values = *parameters.mutable_content();
    if (content.size() != values.size()) values.assign(content.size(), '\0');  // floats of 0
    apply_gradient(reinterpret_cast<float*>(values.data()),
                   reinterpret_cast<const float*>(content.data()), content.size() / sizeof(float));
    if (!stream->Write(parameters)) return grpc::Status::CANCELLED;
  }
  return grpc::Status::OK;
}

std::vector<RunRow> measure_training(const std::shared_ptr<grpc::Channel>& channel,
                                     const RunOptions& options) {
  const auto trainer = Trainer::NewStub(channel);
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes) {
    Call<Tensor, Tensor> call(
        [&](grpc::ClientContext* context) { return trainer->Steps(context); });
    call.request().set_dtype(1);
    call.request().add_shape(static_cast<std::int64_t>(size / sizeof(float)));
    TrainingPeer peer(size, options);
    const auto more = peer.measure([&](const std::vector<float>& gradient) {
      set_bytes(*call.request().mutable_content(), gradient.data(), size);
      return reinterpret_cast<const float*>(call.exchange().content().data());
    });
    rows.insert(rows.end(), more.begin(), more.end());
    call.end();
  }
  return rows;
}

}  // namespace weft::bench
