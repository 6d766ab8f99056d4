// Edges by slots.
#include <array>
#include <map>
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
  void start(const Tensor& tensor) noexcept override { request_ = slot_.put(tensor); }
  bool is_sent() noexcept override { return request_.test(); }
  Status finish(Deadline deadline) noexcept override { return request_.wait(deadline); }
  Awaited awaited() noexcept override { return &request_; }
  EndCosts costs() const override {
    return {.slot = slot_.spec().name, .role = Role::puts, .further = {}};
  }

 private:
  RemoteSlot slot_;
  Request request_;
};

class SlotReceive final : public ReceiveEnd {
 public:
  SlotReceive(Slot slot, bool is_dynamic) : slot_(std::move(slot)), is_dynamic_(is_dynamic) {}
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
  Awaited awaited() noexcept override { return &slot_; }
  EndCosts costs() const override {
    return {.slot = slot_.spec().name, .role = Role::receives, .further = {}};
  }

 private:
  Slot slot_;
  Arrival arrival_;
  const bool is_dynamic_;
};

class SlotWay final : public Way {
 public:
  explicit SlotWay(World& world) : world_(world) {}

  void expose(const EdgePlace& place) override {
    if (place.edge.to != world_.rank()) return;
    Slot slot = world_.expose(spec_of(place.edge, place.name));
    // A slot without its writer waits for another one; an edge has no other one.
    slot.also_needs(std::array{place.edge.from});
    exposed_[place.index] = std::move(slot);
  }

  std::unique_ptr<SendEnd> send_end(const EdgePlace& place, Deadline deadline) override {
    return std::make_unique<SlotSend>(
        world_.attach(place.edge.to, spec_of(place.edge, place.name), deadline));
  }

  std::unique_ptr<ReceiveEnd> receive_end(const EdgePlace& place, Deadline) override {
    return std::make_unique<SlotReceive>(std::move(exposed_.at(place.index)),
                                         place.edge.kind == EdgeKind::dynamic);
  }

 private:
  World& world_;
  std::map<std::size_t, Slot> exposed_;  ///< by edge, until it has its end
};

}  // namespace

std::unique_ptr<Way> make_slot_way(World& world) { return std::make_unique<SlotWay>(world); }

}  // namespace weft::dataflow
