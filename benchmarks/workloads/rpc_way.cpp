#include "benchmarks/workloads/rpc_way.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "runtime/world/services.hpp"
#include "weft/message.hpp"

namespace weft::bench {
namespace {

using dataflow::EdgePlace;

constexpr std::size_t kPiece = 256 << 10;

std::uint64_t call_tag(std::size_t edge) { return 3 * edge; }
std::uint64_t answer_tag(std::size_t edge) { return 3 * edge + 1; }
/// The message before the answer, on an edge whose shape changes.
std::uint64_t shape_tag(std::size_t edge) { return 3 * edge + 2; }

bool has_shape_messages(const dataflow::Edge& edge) {
  return edge.kind == dataflow::EdgeKind::dynamic;
}
/// Memory for a shape message; none if the edge has no such messages.
Tensor shape_memory(World& world, const dataflow::Edge& edge) {
  if (!has_shape_messages(edge)) return {};
  return world.allocate(DType::i64, {static_cast<std::int64_t>(edge.type.shape.dims())});
}
std::size_t largest_piece(const dataflow::Edge& edge) {
  return has_shape_messages(edge) ? kPiece : edge.bytes;
}

/// The messages of a world, which one thread at a time may use.
class Line {
 public:
  explicit Line(World& world) : messages(world), world_(world) {}

  Messages messages;

  /// Returns what `act` does. Waits for the line.
  template <typename Act>
  bool take(Act&& act) noexcept {
    mutex_.lock();
    return leave(act());
  }
  /// The same; false if another thread has the line, which then rings once it leaves it.
  template <typename Act>
  bool try_take(Act&& act) noexcept {
    is_missed_ = true;
    if (!mutex_.try_lock()) return false;
    is_missed_ = false;
    return leave(act());
  }

 private:
  bool leave(bool result) noexcept {
    mutex_.unlock();
    if (is_missed_.exchange(false)) wake(world_);
    return result;
  }

  World& world_;
  std::mutex mutex_;
  std::atomic<bool> is_missed_{false};
};

/// Two private buffers: one is copied while the other is under way.
class Pieces {
 public:
  Pieces(World& world, std::size_t bytes) {
    const auto size = static_cast<std::int64_t>(std::clamp<std::size_t>(bytes, 1, kPiece));
    for (Tensor& buffer : buffers_) buffer = world.allocate(DType::u8, {size});
  }
  const Tensor& operator[](std::size_t piece) const { return buffers_[piece % buffers_.size()]; }

 private:
  std::array<Tensor, 2> buffers_;
};

std::size_t pieces_of(std::size_t bytes) { return bytes == 0 ? 1 : (bytes + kPiece - 1) / kPiece; }
std::size_t bytes_of(std::size_t piece, std::size_t bytes) {
  return std::min(kPiece, bytes - piece * kPiece);
}

class RpcSend final : public dataflow::SendEnd, private weft::detail::Condition {
 public:
  RpcSend(World& world, Line& line, const EdgePlace& place)
      : line_(line),
        edge_(place.index),
        to_(place.edge.to),
        buffers_(world, largest_piece(place.edge)),
        shape_(shape_memory(world, place.edge)),
        called_(world.allocate(DType::u8, {0})) {
    await_call();
  }

  void start(const Tensor& tensor) noexcept override {
    tensor_ = tensor;
    status_ = {};
    sent_ = 0;
    is_called_ = false;
    ++costs_.transfers;
    costs_.bytes_moved += tensor.bytes();
    costs_.bytes_copied += tensor.bytes();
  }
  bool is_sent() noexcept override {
    return line_.take([this] { return go_on(); });
  }
  Status finish(Deadline) noexcept override { return status_; }
  dataflow::Awaited awaited() noexcept override {
    return static_cast<weft::detail::Condition*>(this);
  }
  dataflow::EndCosts costs() const override {
    return {.slot = {}, .role = Role::puts, .further = costs_};
  }

 private:
  bool holds() noexcept override {
    return line_.try_take([this] { return go_on(); });
  }
  /// True once the tensor has been sent. With the line.
  bool go_on() noexcept {
    if (!status_.ok()) return true;
    if (!is_called_) {
      if (!has_ended(call_)) return false;
      is_called_ = true;
      await_call();
      if (shape_.data() != nullptr) send_shape();
    }
    const std::size_t all = pieces_of(tensor_.bytes());
    while (status_.ok() && sent_ < all && (sent_ < 2 || has_ended(sending_[sent_ % 2]))) {
      const std::size_t bytes = bytes_of(sent_, tensor_.bytes());
      const Tensor& buffer = buffers_[sent_];
      std::memcpy(buffer.data(), tensor_.data() + sent_ * kPiece, bytes);
      sending_[sent_ % 2] = line_.messages.isend(
          to_, answer_tag(edge_), buffer.part(0, {static_cast<std::int64_t>(bytes)}));
      ++sent_;
    }
    return !status_.ok() || (sent_ == all && has_ended(sending_[0]) && has_ended(sending_[1]) &&
                             has_ended(sending_shape_));
  }
  /// Always posted, so that a call that comes early does not keep later messages out of the ring.
  void await_call() noexcept { call_ = line_.messages.irecv(to_, call_tag(edge_), called_); }
  void send_shape() noexcept {
    for (std::size_t i = 0; i < tensor_.shape().dims(); ++i)
      shape_.as<std::int64_t>()[i] = tensor_.shape()[i];
    sending_shape_ = line_.messages.isend(to_, shape_tag(edge_), shape_);
  }
  bool has_ended(MessageRequest& request) noexcept {
    if (!request.test()) return false;
    if (const auto ended = request.wait(); !ended.ok()) status_ = ended.status();
    return true;
  }

  Line& line_;
  const std::size_t edge_;
  const int to_;
  const Pieces buffers_;
  const Tensor shape_;
  const Tensor called_;
  Tensor tensor_;
  MessageRequest call_;
  MessageRequest sending_shape_;
  std::array<MessageRequest, 2> sending_;
  bool is_called_ = false;
  std::size_t sent_ = 0;  ///< pieces
  Status status_;
  TransferCounters costs_;
};

class RpcReceive final : public dataflow::ReceiveEnd, private weft::detail::Condition {
 public:
  RpcReceive(World& world, Line& line, const EdgePlace& place)
      : world_(world),
        line_(line),
        edge_(place.index),
        from_(place.edge.from),
        dtype_(place.edge.type.dtype),
        buffers_(world, largest_piece(place.edge)),
        call_(world.allocate(DType::u8, {0})),
        shape_(shape_memory(world, place.edge)) {
    if (!has_shape_messages(place.edge))
      tensor_ = world.allocate(dtype_, place.edge.type.shape.shape());
  }

  bool is_there() noexcept override {
    return line_.take([this] { return go_on(); });
  }
  Result<Tensor> take(Deadline) noexcept override {
    if (!status_.ok()) return status_;
    has_called_ = false;
    ++costs_.transfers;
    costs_.bytes_moved += tensor_.bytes();
    costs_.bytes_copied += tensor_.bytes();
    return tensor_;
  }
  void release() noexcept override {}
  dataflow::Awaited awaited() noexcept override {
    return static_cast<weft::detail::Condition*>(this);
  }
  dataflow::EndCosts costs() const override {
    return {.slot = {}, .role = Role::receives, .further = costs_};
  }

 private:
  bool holds() noexcept override {
    return line_.try_take([this] { return go_on(); });
  }
  /// True once the tensor has come. With the line.
  bool go_on() noexcept {
    if (!has_called_) begin_call();
    if (!has_shape_ && !take_shape()) return !status_.ok();
    const std::size_t all = pieces_of(tensor_.bytes());
    while (status_.ok() && come_ < all && receiving_[come_ % 2].test()) {
      const auto ended = receiving_[come_ % 2].wait();
      if (!ended.ok()) status_ = ended.status();
      std::memcpy(tensor_.data() + come_ * kPiece, buffers_[come_].data(),
                  bytes_of(come_, tensor_.bytes()));
      if (come_ + 2 < all) receive(come_ + 2);
      ++come_;
    }
    return !status_.ok() || come_ == all;
  }
  void begin_call() noexcept {
    has_called_ = true;
    come_ = 0;
    has_shape_ = shape_.data() == nullptr;
    if (has_shape_)
      receive_first();
    else
      receiving_shape_ = line_.messages.irecv(from_, shape_tag(edge_), shape_);
    calling_ = line_.messages.isend(from_, call_tag(edge_), call_);
  }
  /// False until the shape has come, and after a failure.
  bool take_shape() noexcept {
    if (!receiving_shape_.test()) return false;
    if (const auto ended = receiving_shape_.wait(); !ended.ok()) status_ = ended.status();
    if (status_.ok()) allocate();
    if (!status_.ok()) return false;
    has_shape_ = true;
    receive_first();
    return true;
  }
  /// The memory of the step before, if the shape is the same.
  void allocate() noexcept try {
    const Shape shape{std::span<const std::int64_t>(shape_.as<std::int64_t>())};
    if (tensor_.data() == nullptr || tensor_.shape() != shape)
      tensor_ = world_.allocate(dtype_, shape);
  } catch (const Error& error) {
    status_ = Status(ErrorDetail{.code = error.code(), .message = error.what()});
  }
  void receive_first() noexcept {
    for (std::size_t piece = 0; piece < std::min<std::size_t>(2, pieces_of(tensor_.bytes()));
         ++piece)
      receive(piece);
  }
  void receive(std::size_t piece) noexcept {
    receiving_[piece % 2] = line_.messages.irecv(from_, answer_tag(edge_), buffers_[piece]);
  }

  World& world_;
  Line& line_;
  const std::size_t edge_;
  const int from_;
  const DType dtype_;
  const Pieces buffers_;
  const Tensor call_;
  const Tensor shape_;
  Tensor tensor_;
  MessageRequest calling_;
  MessageRequest receiving_shape_;
  std::array<MessageRequest, 2> receiving_;
  bool has_called_ = false;
  bool has_shape_ = false;
  std::size_t come_ = 0;  ///< pieces
  Status status_;
  TransferCounters costs_;
};

class RpcWay final : public dataflow::Way {
 public:
  explicit RpcWay(World& world) : world_(world), line_(world) {}

  void expose(const EdgePlace&) override {}
  std::unique_ptr<dataflow::SendEnd> send_end(const EdgePlace& place, Deadline) override {
    return std::make_unique<RpcSend>(world_, line_, place);
  }
  std::unique_ptr<dataflow::ReceiveEnd> receive_end(const EdgePlace& place, Deadline) override {
    return std::make_unique<RpcReceive>(world_, line_, place);
  }

 private:
  World& world_;
  Line line_;
};

}  // namespace

std::unique_ptr<dataflow::Way> make_rpc_way(World& world) {
  return std::make_unique<RpcWay>(world);
}

}  // namespace weft::bench
