#include "benchmarks/workloads/rpc_way.hpp"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>
#include <span>
#include <string>

#include "rpc.pb.h"
#include "runtime/world/services.hpp"
#include "weft/message.hpp"

namespace weft::bench {
namespace {

using dataflow::EdgePlace;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

constexpr std::size_t kPiece = 256 << 10;
/// How generated code encodes the content's field: its bytes follow its number and their count.
constexpr std::uint32_t kContentTag = (TensorAnswer::kContentFieldNumber << 3) | 2;
constexpr std::uint32_t kShapeTag = (TensorAnswer::kShapeFieldNumber << 3) | 2;

std::uint64_t call_tag(std::size_t edge) { return 2 * edge; }
std::uint64_t answer_tag(std::size_t edge) { return 2 * edge + 1; }

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
  explicit Pieces(World& world) {
    for (Tensor& buffer : buffers_)
      buffer = world.allocate(DType::u8, {static_cast<std::int64_t>(kPiece)});
  }
  const Tensor& operator[](std::size_t piece) const { return buffers_[piece % buffers_.size()]; }

 private:
  std::array<Tensor, 2> buffers_;
};

Status no_memory(const EdgePlace& place) {
  return Status(ErrorDetail{.code = Code::exhausted,
                            .operation = "rpc",
                            .message = "no memory for the message of " + place.name});
}

class RpcSend final : public dataflow::SendEnd, private weft::detail::Condition {
 public:
  RpcSend(World& world, Line& line, const EdgePlace& place)
      : line_(line),
        edge_(place.index),
        to_(place.edge.to),
        no_memory_(no_memory(place)),
        buffers_(world),
        called_(world.allocate(DType::u8, {0})) {
    await_call();
  }

  void start(const Tensor& tensor) noexcept override {
    status_ = {};
    sent_ = 0;
    copied_ = 0;
    is_called_ = false;
    if (!pack(tensor)) status_ = no_memory_;
    ++costs_.transfers;
    costs_.bytes_moved += tensor.bytes();
    costs_.bytes_copied += 2 * tensor.bytes();
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
  /// The message keeps its memory from tensor to tensor.
  bool pack(const Tensor& tensor) noexcept try {
    // set_content() would make a copy more.
    message_.mutable_content()->assign(reinterpret_cast<const char*>(tensor.data()),
                                       tensor.bytes());
    TensorAnswer head;
    for (std::size_t i = 0; i < tensor.shape().dims(); ++i) head.add_shape(tensor.shape()[i]);
    head_ = head.SerializeAsString();
    std::array<std::uint8_t, 16> field;
    std::uint8_t* end = CodedOutputStream::WriteTagToArray(kContentTag, field.data());
    end = CodedOutputStream::WriteVarint32ToArray(
        static_cast<std::uint32_t>(message_.content().size()), end);
    head_.append(reinterpret_cast<const char*>(field.data()),
                 static_cast<std::size_t>(end - field.data()));
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
  std::size_t bytes() const noexcept { return head_.size() + message_.content().size(); }
  /// Serializes the next bytes of the message; a library's stream could not stop amid it.
  std::size_t serialize(const Tensor& buffer) noexcept {
    const std::string& content = message_.content();
    const std::size_t head = copied_ == 0 ? head_.size() : 0;
    const std::size_t from = copied_ == 0 ? 0 : copied_ - head_.size();
    const std::size_t rest = std::min(kPiece - head, content.size() - from);
    std::memcpy(buffer.data(), head_.data(), head);
    std::memcpy(buffer.data() + head, content.data() + from, rest);
    return head + rest;
  }
  /// True once the tensor has been sent. With the line.
  bool go_on() noexcept {
    if (!status_.ok()) return true;
    if (!is_called_) {
      if (!has_ended(call_)) return false;
      is_called_ = true;
      await_call();
    }
    while (status_.ok() && copied_ < bytes() && has_ended(sending_[sent_ % 2])) {
      const Tensor& buffer = buffers_[sent_];
      const std::size_t some = serialize(buffer);
      sending_[sent_ % 2] = line_.messages.isend(to_, answer_tag(edge_),
                                                 buffer.part(0, {static_cast<std::int64_t>(some)}));
      copied_ += some;
      ++sent_;
    }
    return !status_.ok() ||
           (copied_ == bytes() && has_ended(sending_[0]) && has_ended(sending_[1]));
  }
  /// Always posted, so that a call that comes early does not keep later messages out of the ring.
  void await_call() noexcept { call_ = line_.messages.irecv(to_, call_tag(edge_), called_); }
  bool has_ended(MessageRequest& request) noexcept {
    if (!request.test()) return false;
    if (const auto ended = request.wait(); !ended.ok()) status_ = ended.status();
    return true;
  }

  Line& line_;
  const std::size_t edge_;
  const int to_;
  const Status no_memory_;
  const Pieces buffers_;
  const Tensor called_;
  TensorAnswer message_;
  std::string head_;  ///< the message's bytes before its content
  MessageRequest call_;
  std::array<MessageRequest, 2> sending_;
  bool is_called_ = false;
  std::size_t sent_ = 0;    ///< pieces
  std::size_t copied_ = 0;  ///< bytes
  Status status_;
  TransferCounters costs_;
};

/// The tensor is read in the message.
class RpcReceive final : public dataflow::ReceiveEnd, private weft::detail::Condition {
 public:
  RpcReceive(World& world, Line& line, const EdgePlace& place)
      : line_(line),
        edge_(place.index),
        from_(place.edge.from),
        type_(place.edge.type),
        no_memory_(no_memory(place)),
        buffers_(world),
        call_(world.allocate(DType::u8, {0})) {
    for (std::size_t piece = 0; piece < 2; ++piece) receive(piece);
  }

  bool is_there() noexcept override {
    return line_.take([this] { return go_on(); });
  }
  Result<Tensor> take(Deadline) noexcept override try {
    if (!status_.ok()) return status_;
    has_called_ = false;
    std::string& content = *message_.mutable_content();
    ++costs_.transfers;
    costs_.bytes_moved += content.size();
    costs_.bytes_copied += content.size();
    return Tensor::wrap(
        content.data(), type_.dtype,
        Shape(std::span(message_.shape().data(), static_cast<std::size_t>(message_.shape_size()))));
  } catch (const Error& error) {
    return Status(ErrorDetail{.code = error.code(), .message = error.what()});
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
  bool go_on() noexcept try {
    if (!has_called_) begin_call();
    while (status_.ok() && copied_ < length_ && receiving_[come_ % 2].test()) {
      const auto ended = receiving_[come_ % 2].wait();
      if (ended.ok())
        take_piece(ended->bytes);
      else
        status_ = ended.status();
    }
    return !status_.ok() || copied_ == length_;
  } catch (const std::bad_alloc&) {
    status_ = no_memory_;
    return true;
  }
  void begin_call() noexcept {
    has_called_ = true;
    copied_ = 0;
    length_ = kUnknown;
    calling_ = line_.messages.isend(from_, call_tag(edge_), call_);
  }
  /// Parses the next bytes of the message.
  void take_piece(std::size_t bytes) {
    const std::byte* from = buffers_[come_].data();
    if (length_ == kUnknown) {
      const std::size_t head = parse_head({from, bytes});
      from += head;
      bytes -= head;
    }
    std::string& content = *message_.mutable_content();
    bytes = std::min(bytes, content.size() - copied_);
    std::memcpy(content.data() + copied_, from, bytes);
    copied_ += bytes;
    receive(come_ + 2);
    ++come_;
  }
  /// Returns the bytes before the content, which get their memory.
  std::size_t parse_head(std::span<const std::byte> piece) {
    CodedInputStream in(reinterpret_cast<const std::uint8_t*>(piece.data()),
                        static_cast<int>(piece.size()));
    std::uint32_t length = 0;
    message_.clear_shape();
    while (in.ReadTag() == kShapeTag && in.ReadVarint32(&length)) {
      const auto limit = in.PushLimit(static_cast<int>(length));
      for (std::uint64_t dim = 0; in.BytesUntilLimit() > 0 && in.ReadVarint64(&dim);)
        message_.add_shape(static_cast<std::int64_t>(dim));
      in.PopLimit(limit);
    }
    if (!in.LastTagWas(kContentTag) || !in.ReadVarint32(&length)) {
      status_ = Status(ErrorDetail{.code = Code::system,
                                   .operation = "rpc",
                                   .message = "the answer is no message of its type"});
      length = 0;
    }
    length_ = length;
    message_.mutable_content()->resize(length);
    return static_cast<std::size_t>(in.CurrentPosition());
  }
  void receive(std::size_t piece) noexcept {
    receiving_[piece % 2] = line_.messages.irecv(from_, answer_tag(edge_), buffers_[piece]);
  }

  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

  Line& line_;
  const std::size_t edge_;
  const int from_;
  const dataflow::TensorType type_;
  const Status no_memory_;
  const Pieces buffers_;
  const Tensor call_;
  TensorAnswer message_;
  MessageRequest calling_;
  std::array<MessageRequest, 2> receiving_;
  bool has_called_ = false;
  std::uint64_t length_ = 0;  ///< of the content
  std::uint64_t copied_ = 0;
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
