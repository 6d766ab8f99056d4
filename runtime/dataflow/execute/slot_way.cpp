// Edges by slots.
#include <array>
#include <vector>

#include "runtime/dataflow/execute/edge_ends.hpp"

namespace weft::dataflow {
namespace {

SlotSpec spec_of(const Edge& edge, const std::string& name) {
  SlotSpec spec;
  spec.name = name;
  spec.dtype = edge.type.dtype;
  if (edge.kind == EdgeKind::fixed) {
    spec.shape = edge.type.shape.shape();
    spec.flow = edge.needs_credits ? Flow::credits : Flow::unsafe_synchronous;
  } else {
    // Only the number of dimensions counts.
    const std::vector<std::int64_t> zeros(edge.type.shape.dims(), 0);
    spec.shape = Shape(std::span<const std::int64_t>(zeros));
    spec.placement = weft::Placement::dynamic;
  }
  return spec;
}

class SlotSend final : public SendEnd {
 public:
  explicit SlotSend(RemoteSlot slot) : slot_(std::move(slot)) {}
  RemoteSlot& slot() { return slot_; }

  void start(const Tensor& tensor) noexcept override { request_ = slot_.put(tensor); }
  bool is_sent() noexcept override { return request_.test(); }
  Status finish(Deadline deadline) noexcept override { return request_.wait(deadline); }
  Request& awaited() noexcept override { return request_; }

 private:
  RemoteSlot slot_;
  Request request_;
};

class SlotReceive final : public ReceiveEnd {
 public:
  SlotReceive(Slot slot, bool is_dynamic) : slot_(std::move(slot)), is_dynamic_(is_dynamic) {}
  Slot& slot() { return slot_; }

  bool is_there() noexcept override { return slot_.ready(); }
  Result<Tensor> take(Deadline deadline) noexcept override {
    Result<Arrival> result = slot_.wait(deadline);
    if (!result.ok()) return result.status();
    arrival_ = std::move(*result);
    Tensor tensor = arrival_.tensor();
    // The handle keeps what was read into memory of this rank.
    if (is_dynamic_) arrival_.release();
    return tensor;
  }
  void release() noexcept override { arrival_.release(); }
  Slot& awaited() noexcept override { return slot_; }

 private:
  Slot slot_;
  Arrival arrival_;
  const bool is_dynamic_;
};

class SlotWay final : public Way {
 public:
  std::unique_ptr<ReceiveEnd> expose(World& world, const Edge& edge,
                                     const std::string& name) override {
    Slot slot = world.expose(spec_of(edge, name));
    // A slot without its writer waits for another one; an edge has no other one.
    slot.also_needs(std::array{edge.from});
    return std::make_unique<SlotReceive>(std::move(slot), edge.kind == EdgeKind::dynamic);
  }

  std::unique_ptr<SendEnd> attach(World& world, const Edge& edge, const std::string& name,
                                  Deadline deadline) override {
    RemoteSlot slot = world.attach(edge.to, spec_of(edge, name), deadline);
    return std::make_unique<SlotSend>(std::move(slot));
  }
};

}  // namespace

std::unique_ptr<Way> make_slot_way() { return std::make_unique<SlotWay>(); }

}  // namespace weft::dataflow
