#include "benchmarks/workloads/transfer_ways.hpp"

#include <string>
#include <variant>
#include <vector>

#include "benchmarks/harness/transfer.hpp"
#include "benchmarks/workloads/rpc_way.hpp"

namespace weft::bench {
namespace {

constexpr std::size_t kHuge = std::size_t{1} << 30;

Shape shape_in_bytes(std::size_t size) { return {static_cast<std::int64_t>(size)}; }

const float* floats_in(const Tensor& tensor) {
  return reinterpret_cast<const float*>(tensor.data());
}

/// Huge tensors have one buffer: two would need most machines' memory.
std::uint32_t buffers_of(std::size_t size) { return size > kHuge ? 1 : 2; }

class ArenaSource final : public TransferSource {
 public:
  ArenaSource(World& world, const SlotSpec& spec)
      : remote_(world.attach(1, spec)), source_(world.allocate(spec.dtype, spec.shape)) {}
  Tensor next() override { return source_; }
  void move() override { remote_.put(source_).wait().or_throw(); }

 private:
  RemoteSlot remote_;
  Tensor source_;
};

/// From plain memory, as where no analysis has told which tensors are sent: each put is staged.
class CopiedSource final : public TransferSource {
 public:
  CopiedSource(World& world, const SlotSpec& spec)
      : remote_(world.attach(1, spec)),
        memory_(static_cast<std::size_t>(spec.shape.elements())),
        source_(Tensor::wrap(memory_.data(), spec.dtype, spec.shape)) {}
  Tensor next() override { return source_; }
  void move() override { remote_.put(source_).wait().or_throw(); }

 private:
  RemoteSlot remote_;
  std::vector<std::byte> memory_;
  Tensor source_;
};

class PutTarget final : public TransferTarget {
 public:
  PutTarget(World& world, const SlotSpec& spec) : slot_(world.expose(spec)) {}
  const float* take() override {
    arrival_.release();
    arrival_ = slot_.wait().value();
    return floats_in(arrival_.tensor());
  }

 private:
  Slot slot_;
  Arrival arrival_;
};

class ViewSource final : public TransferSource {
 public:
  ViewSource(World& world, const PublishedSpec& spec) : slot_(world.expose_published(spec)) {}
  Tensor next() override { return slot_.next().value(); }
  void move() override { slot_.publish().or_throw(); }

 private:
  PublishedSlot slot_;
};

class ViewTarget final : public TransferTarget {
 public:
  ViewTarget(World& world, const PublishedSpec& spec) : reader_(world.attach_published(0, spec)) {}
  const float* take() override {
    arrival_.release();
    arrival_ = reader_.view().value();
    return floats_in(arrival_.tensor());
  }

 private:
  PublishedReader reader_;
  Arrival arrival_;
};

/// The edge from rank 0 to rank 1 that a call goes along.
class RpcEdge {
 public:
  RpcEdge(World& world, std::size_t size, std::size_t number)
      : world_(world), way_(make_rpc_way(world)), number_(number) {
    edge_.from = 0;
    edge_.to = 1;
    edge_.type = {DType::u8, dataflow::PartialShape(shape_in_bytes(size))};
    edge_.bytes = size;
  }
  dataflow::Way& way() noexcept { return *way_; }
  dataflow::EdgePlace place() const { return {number_, edge_, "fig7.rpc"}; }

  template <typename End>
  void await(End& end, bool (End::*has_ended)() noexcept) {
    while (!(end.*has_ended)()) {
      const dataflow::Awaited awaited = end.awaited();
      weft::detail::Condition* const condition = std::get<weft::detail::Condition*>(awaited);
      wait_any(world_, {.set = {}, .conditions = {&condition, 1}, .woken = {}},
               Deadline::after(default_timeout(world_)))
          .status()
          .or_throw();
    }
  }

 private:
  World& world_;
  std::unique_ptr<dataflow::Way> way_;
  dataflow::Edge edge_;
  std::size_t number_;
};

class RpcSource final : public TransferSource {
 public:
  RpcSource(World& world, std::size_t size, std::size_t number)
      : edge_(world, size, number),
        source_(world.allocate(DType::u8, shape_in_bytes(size))),
        end_(edge_.way().send_end(edge_.place(), {})) {}
  Tensor next() override { return source_; }
  void move() override {
    end_->start(source_);
    edge_.await(*end_, &dataflow::SendEnd::is_sent);
    end_->finish({}).or_throw();
  }

 private:
  RpcEdge edge_;
  Tensor source_;
  std::unique_ptr<dataflow::SendEnd> end_;
};

class RpcTarget final : public TransferTarget {
 public:
  RpcTarget(World& world, std::size_t size, std::size_t number)
      : edge_(world, size, number), end_(edge_.way().receive_end(edge_.place(), {})) {}
  const float* take() override {
    edge_.await(*end_, &dataflow::ReceiveEnd::is_there);
    tensor_ = end_->take({}).value();
    return floats_in(tensor_);
  }

 private:
  RpcEdge edge_;
  std::unique_ptr<dataflow::ReceiveEnd> end_;
  Tensor tensor_;
};

template <typename Source, typename Target, typename... Arguments>
void make_end(World& world, TransferWay& way, const Arguments&... arguments) {
  if (world.rank() == 0)
    way.source = std::make_unique<Source>(world, arguments...);
  else
    way.target = std::make_unique<Target>(world, arguments...);
}

}  // namespace

TransferWay make_transfer_way(World& world, std::string_view kind, std::size_t size,
                              std::size_t number) {
  TransferWay way{.kind = kind};
  const std::string name = "fig7." + std::to_string(number);
  if (kind == kByView)
    make_end<ViewSource, ViewTarget>(world, way,
                                     PublishedSpec{.name = name,
                                                   .dtype = DType::u8,
                                                   .shape = shape_in_bytes(size),
                                                   .depth = buffers_of(size)});
  if (kind == kByRpc) make_end<RpcSource, RpcTarget>(world, way, size, number);
  const SlotSpec spec{
      .name = name, .dtype = DType::u8, .shape = shape_in_bytes(size), .depth = buffers_of(size)};
  if (kind == kByPut) make_end<ArenaSource, PutTarget>(world, way, spec);
  if (kind == kByCopy) make_end<CopiedSource, PutTarget>(world, way, spec);
  return way;
}

}  // namespace weft::bench
