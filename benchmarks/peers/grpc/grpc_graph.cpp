#include "benchmarks/peers/grpc/grpc_graph.hpp"

#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>

#include "benchmarks/harness/transfer.hpp"
#include "benchmarks/peers/grpc/call.hpp"
#include "benchmarks/workloads/graph_replay.hpp"
#include "weft/collective.hpp"

namespace weft::bench {
namespace {

using dataflow::EdgePlace;
using EdgeCall = Call<EdgeTensor, Largest>;

class GrpcSend final : public dataflow::SendEnd, private weft::detail::Condition {
 public:
  GrpcSend(EdgeCall& call, const EdgePlace& place)
      : call_(call),
        edge_(place.index),
        is_dynamic_(place.edge.kind == dataflow::EdgeKind::dynamic) {}

  void start(const weft::Tensor& tensor) noexcept override {
    status_ = {};
    try {
      call_.request().set_edge(static_cast<std::int32_t>(edge_));
      call_.request().set_content(tensor.data(), tensor.bytes());
      call_.request().clear_shape();
      for (std::size_t i = 0; is_dynamic_ && i < tensor.shape().dims(); ++i)
        call_.request().add_shape(tensor.shape()[i]);
      call_.send();
    } catch (const std::exception& error) {
      status_ = Status(ErrorDetail{.code = Code::closed, .message = error.what()});
    }
    ++costs_.transfers;
    costs_.bytes_moved += tensor.bytes();
    costs_.bytes_copied += tensor.bytes();
  }
  bool is_sent() noexcept override { return true; }
  Status finish(Deadline) noexcept override { return status_; }
  dataflow::Awaited awaited() noexcept override {
    return static_cast<weft::detail::Condition*>(this);
  }
  dataflow::EndCosts costs() const override {
    return {.slot = {}, .role = Role::puts, .further = costs_};
  }

 private:
  bool holds() noexcept override { return true; }

  EdgeCall& call_;
  const std::size_t edge_;
  const bool is_dynamic_;
  Status status_;
  TransferCounters costs_;
};

/// The tensor is read in the message.
class GrpcReceive final : public dataflow::ReceiveEnd, private weft::detail::Condition {
 public:
  GrpcReceive(EdgeService& service, const EdgePlace& place)
      : service_(service), edge_(place.index), type_(place.edge.type) {}

  bool is_there() noexcept override { return service_.has(edge_); }
  Result<weft::Tensor> take(Deadline) noexcept override {
    message_ = service_.take(edge_);
    std::string& content = *message_.mutable_content();
    ++costs_.transfers;
    costs_.bytes_moved += content.size();
    const Shape shape = type_.shape.known()
                            ? type_.shape.shape()
                            : Shape(std::span(message_.shape().data(),
                                              static_cast<std::size_t>(message_.shape_size())));
    return weft::Tensor::wrap(content.data(), type_.dtype, shape);
  }
  void release() noexcept override {}
  dataflow::Awaited awaited() noexcept override {
    return static_cast<weft::detail::Condition*>(this);
  }
  dataflow::EndCosts costs() const override {
    return {.slot = {}, .role = Role::receives, .further = costs_};
  }

 private:
  bool holds() noexcept override { return is_there(); }

  EdgeService& service_;
  const std::size_t edge_;
  const dataflow::TensorType type_;
  EdgeTensor message_;
  TransferCounters costs_;
};

class GrpcWay final : public dataflow::Way {
 public:
  GrpcWay(EdgeCall& call, EdgeService& service) : call_(call), service_(service) {}

  void expose(const EdgePlace&) override {}
  std::unique_ptr<dataflow::SendEnd> send_end(const EdgePlace& place, Deadline) override {
    return std::make_unique<GrpcSend>(call_, place);
  }
  std::unique_ptr<dataflow::ReceiveEnd> receive_end(const EdgePlace& place, Deadline) override {
    return std::make_unique<GrpcReceive>(service_, place);
  }

 private:
  EdgeCall& call_;
  EdgeService& service_;
};

/// The other rank's word.
std::string swapped(World& world, const std::string& own) {
  constexpr std::int64_t kMost = 512;
  const weft::Tensor in = world.allocate(DType::u8, {kMost});
  const weft::Tensor out = world.allocate(DType::u8, {2 * kMost});
  std::memset(in.data(), 0, in.bytes());
  std::memcpy(in.data(), own.data(), own.size());
  Collectives group = Collectives::open(world);
  group.run(all_gather(in, out)).or_throw();
  return {reinterpret_cast<const char*>(out.data()) + (world.rank() == 0 ? kMost : 0)};
}

dataflow::MakeWay way_of(EdgeCall& call, EdgeService& service) {
  return [&](World&, const dataflow::Plan&) { return std::make_unique<GrpcWay>(call, service); };
}

double microseconds_per_step(World& world, const dataflow::MakeWay& way, const Model& model,
                             const RunOptions& options) {
  GraphReplay replay(model);
  dataflow::Executor executor = dataflow::ExecutorAccess::make(
      world, replay.graph(), replay.kernels(world.rank()),
      {.name = std::string(model.name), .way = dataflow::EdgeWay::slots}, way);
  const std::uint64_t steps = replayed_steps(model.bytes(), options.budget.count());
  for (std::uint64_t i = 0; i < kReplayWarmUp; ++i) replay.step(executor);
  const double spent = timed([&] {
    for (std::uint64_t i = 0; i < steps; ++i) replay.step(executor);
  });
  if (options.check) replay.check(executor, world.rank());
  return spent / static_cast<double>(steps);
}

}  // namespace

grpc::Status EdgeService::Tensors(grpc::ServerContext*,
                                  grpc::ServerReaderWriter<Largest, EdgeTensor>* stream) {
  EdgeTensor message;
  while (stream->Read(&message)) {
    const std::lock_guard lock(mutex_);
    arrived_[static_cast<std::size_t>(message.edge())].push_back(std::move(message));
    if (world_ != nullptr) wake(*world_);
  }
  return grpc::Status::OK;
}

void EdgeService::ring(World* world) {
  const std::lock_guard lock(mutex_);
  world_ = world;
}

bool EdgeService::has(std::size_t edge) {
  const std::lock_guard lock(mutex_);
  const auto found = arrived_.find(edge);
  return found != arrived_.end() && !found->second.empty();
}

EdgeTensor EdgeService::take(std::size_t edge) {
  const std::lock_guard lock(mutex_);
  EdgeTensor message = std::move(arrived_[edge].front());
  arrived_[edge].pop_front();
  return message;
}

void run_graphs_over_grpc(const std::string& place, EdgeService& service, const Connect& connect,
                          const GraphJob& job) {
  World world = World::join();
  if (world.size() != 2) throw std::runtime_error("a run needs two ranks; start it with -n 2");
  service.ring(&world);
  const auto stub = Edges::NewStub(connect(swapped(world, place)));
  EdgeCall call([&](grpc::ClientContext* context) { return stub->Tensors(context); });
  job(world, way_of(call, service));
  call.end();
  world.leave().or_throw();
  service.ring(nullptr);
}

std::vector<RunRow> replay_graph_over_grpc(World& world, const dataflow::MakeWay& way,
                                           const RunOptions& options) {
  std::vector<RunRow> rows;
  for (const std::size_t bytes : options.sizes) {
    const Model& model = model_of(bytes);
    const double spent = microseconds_per_step(world, way, model, options);
    // The same figure stands beside each of weft's ways.
    for (const std::string_view kind : kKindsOfEdge)
      rows.push_back(
          {bytes, std::string(model.name) + "." + std::string(kind), {{"sendrecv", spent}}, {}});
  }
  return world.rank() == 0 ? rows : std::vector<RunRow>{};
}

}  // namespace weft::bench
