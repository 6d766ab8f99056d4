#include "benchmarks/peers/grpc/grpc_edges.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <span>
#include <utility>

#include "runtime/world/services.hpp"
#include "weft/collective.hpp"

namespace weft::bench {
namespace {

using dataflow::EdgePlace;

class GrpcSend final : public dataflow::SendEnd, private weft::detail::Condition {
 public:
  GrpcSend(EdgeWriter& writer, const EdgePlace& place)
      : writer_(writer),
        edge_(place.index),
        is_dynamic_(place.edge.kind == dataflow::EdgeKind::dynamic) {}

  void start(const weft::Tensor& tensor) noexcept override {
    number_ = writer_.write(edge_, tensor, is_dynamic_);
    ++costs_.transfers;
    costs_.bytes_moved += tensor.bytes();
    costs_.bytes_copied += tensor.bytes();
  }
  bool is_sent() noexcept override { return writer_.has_copied(number_); }
  weft::Status finish(Deadline) noexcept override { return writer_.status(); }
  dataflow::Awaited awaited() noexcept override {
    return static_cast<weft::detail::Condition*>(this);
  }
  dataflow::EndCosts costs() const override {
    return {.slot = {}, .role = Role::puts, .further = costs_};
  }

 private:
  bool holds() noexcept override { return is_sent(); }

  EdgeWriter& writer_;
  const std::size_t edge_;
  const bool is_dynamic_;
  std::uint64_t number_ = 0;
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
  GrpcWay(const std::map<int, std::unique_ptr<EdgeWriter>>& writers, EdgeService& service)
      : writers_(writers), service_(service) {}

  void expose(const EdgePlace&) override {}
  std::unique_ptr<dataflow::SendEnd> send_end(const EdgePlace& place, Deadline) override {
    return std::make_unique<GrpcSend>(*writers_.at(place.edge.to), place);
  }
  std::unique_ptr<dataflow::ReceiveEnd> receive_end(const EdgePlace& place, Deadline) override {
    return std::make_unique<GrpcReceive>(service_, place);
  }

 private:
  const std::map<int, std::unique_ptr<EdgeWriter>>& writers_;
  EdgeService& service_;
};

/// Every rank's word, by rank.
std::vector<std::string> all_words(World& world, const std::string& own) {
  constexpr std::size_t kMost = 512;
  const auto ranks = static_cast<std::size_t>(world.size());
  const weft::Tensor in = world.allocate(DType::u8, {static_cast<std::int64_t>(kMost)});
  const weft::Tensor out = world.allocate(DType::u8, {static_cast<std::int64_t>(ranks * kMost)});
  std::memset(in.data(), 0, in.bytes());
  std::memcpy(in.data(), own.data(), std::min(own.size(), kMost - 1));
  Collectives group = Collectives::open(world);
  group.run(all_gather(in, out)).or_throw();
  std::vector<std::string> words;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    words.emplace_back(reinterpret_cast<const char*>(out.data()) + rank * kMost);
  return words;
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

EdgeWriter::EdgeWriter(World& world, const std::shared_ptr<grpc::Channel>& channel)
    : world_(world),
      stub_(Edges::NewStub(channel)),
      call_([&](grpc::ClientContext* context) { return stub_->Tensors(context); }),
      thread_([this] { run(); }) {}

EdgeWriter::~EdgeWriter() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::uint64_t EdgeWriter::write(std::size_t edge, const weft::Tensor& tensor, bool with_shape) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({edge, tensor, with_shape});
  changed_.notify_one();
  return ++written_;
}

weft::Status EdgeWriter::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

std::optional<EdgeWriter::Entry> EdgeWriter::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_ending_ || !entries_.empty(); });
  if (entries_.empty()) return std::nullopt;
  Entry entry = std::move(entries_.front());
  entries_.pop_front();
  return entry;
}

void EdgeWriter::copy(const Entry& entry) {
  EdgeTensor& request = call_.request();
  request.set_edge(static_cast<std::int32_t>(entry.edge));
  set_bytes(*request.mutable_content(), entry.tensor.data(), entry.tensor.bytes());
  request.clear_shape();
  for (std::size_t i = 0; entry.with_shape && i < entry.tensor.shape().dims(); ++i)
    request.add_shape(entry.tensor.shape()[i]);
}

void EdgeWriter::run() {
  while (auto entry = next()) {
    copy(*entry);
    entry->tensor = {};
    ++copied_;
    wake(world_);
    try {
      call_.send();
    } catch (const std::exception& error) {
      break_off(error.what());
    }
  }
  try {
    call_.end();
  } catch (const std::exception& error) {
    break_off(error.what());
  }
}

void EdgeWriter::break_off(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (status_.ok()) status_ = weft::Status(ErrorDetail{.code = Code::closed, .message = why});
}

EdgeCalls::EdgeCalls(World& world, const std::string& place, EdgeService& service,
                     const Connect& connect)
    : service_(service) {
  service.ring(&world);
  const std::vector<std::string> places = all_words(world, place);
  for (int rank = 0; rank < world.size(); ++rank)
    if (rank != world.rank())
      writers_[rank] =
          std::make_unique<EdgeWriter>(world, connect(places[static_cast<std::size_t>(rank)]));
}

EdgeCalls::~EdgeCalls() {
  writers_.clear();
  service_.ring(nullptr);
}

dataflow::MakeWay EdgeCalls::way() {
  return [this](World&, const dataflow::Plan&) {
    return std::make_unique<GrpcWay>(writers_, service_);
  };
}

}  // namespace weft::bench
