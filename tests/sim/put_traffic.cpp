// Traffic through slots that a peer writes.
#include <fmt/format.h>

#include <cstring>
#include <deque>
#include <stdexcept>

#include "tests/sim/traffic_end.hpp"

namespace weft::tests {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::size_t kMaxPending = 4;
constexpr std::int64_t kPutsPerEdge = 24;

class PutWriter final : public Attached<RemoteSlot> {
 public:
  using Attached::Attached;

 private:
  struct Pending {
    Request request;
    Tensor tensor;
    std::int64_t count;
  };

  bool act() override {
    if (!attached_) {
      count_ = 0;
      return attach();
    }
    const bool all_put = left_ == 0;
    if (!all_put && pending_.size() < kMaxPending && random_.chance(0.6)) return put();
    if (!pending_.empty()) return wait();
    if (all_put) {
      finish();
      return true;
    }
    if (random_.chance(0.03)) detach();  // with what was put on its way
    return true;
  }

  bool put() {
    const bool dynamic = edge_.spec.placement == Placement::dynamic;
    const Shape shape =
        dynamic ? Shape{static_cast<std::int64_t>(16 + random_.below(3000))} : edge_.spec.shape;
    const Tensor tensor = world_.allocate(edge_.spec.dtype, shape);
    const Label label = make_label(edge_.id, attaches_, count_ + 1, left_ - 1);
    std::memcpy(tensor.data(), &label, sizeof label);
    fill_after_label(tensor, edge_.id, label);
    pending_.push_back({remote_.put(tensor), tensor, ++count_});
    --left_;
    // Only the last one: the others' labels say that there is no gap before them.
    if (random_.chance(0.05)) {
      const Status status = pending_.back().request.cancel();
      if (status.code() == Code::cancelled) {
        --count_;
        ++left_;
        pending_.pop_back();
      }
    }
    return true;
  }

  bool wait() {
    Pending& oldest = pending_.front();
    const Status status = oldest.request.wait(soon());
    if (status.code() == Code::timeout) {
      refusal_ = status.text();
      return false;
    }
    if (status.ok()) {
      std::memset(oldest.tensor.data(), 0xEE, oldest.tensor.bytes());  // it may be written again
      pending_.pop_front();
      return true;
    }
    if (status.code() != Code::closed) {
      explain(status);
      return true;
    }
    // The slot was closed: put the rest into the next slot of that name.
    left_ += static_cast<std::int64_t>(pending_.size());
    pending_.clear();
    detach();
    return true;
  }

  void detach() override {
    pending_.clear();
    Attached::detach();
  }

  std::string where() const override {
    return fmt::format("rank {} puts at depth {}, {} pending, {} to go; last refusal: {}",
                       edge_.other, edge_.spec.depth, pending_.size(), left_, refusal_);
  }

  std::deque<Pending> pending_;
  std::int64_t left_ = kPutsPerEdge;
  std::int64_t count_ = 0;
};

class PutOwner final : public End {
 public:
  PutOwner(SimJob& job, World& world, const Traffic& traffic, const Edge& edge, int peer)
      : End(job, world, traffic, edge, peer), slot_(world.expose(edge.spec)) {}

 private:
  bool act() override {
    if (!exposed_) {
      slot_ = world_.expose(edge_.spec);
      exposed_ = true;
      return true;
    }
    // Away for so long that the writer asks for credits that were not reported.
    if (random_.chance(0.03))
      job_.sleep(world_, random_.between(microseconds(1), milliseconds(40)));
    if (held_.size() < edge_.spec.depth && random_.chance(0.7)) return take();
    if (held_.empty()) return take();
    const auto at = held_.begin() + static_cast<std::ptrdiff_t>(random_.below(held_.size()));
    read_label(at->tensor(), edge_);  // still whole, however long it was held
    held_.erase(at);
    if (last_) {
      if (held_.empty()) finish();
      return true;
    }
    // The writer has more to put than may be lost with this slot.
    if (closes_ < 2 && left_ > static_cast<std::int64_t>(edge_.spec.depth + 2 * kMaxPending) &&
        random_.chance(0.2)) {
      // Perhaps while a held-up writer's question is on its way.
      if (random_.chance(0.5))
        job_.sleep(world_, random_.between(milliseconds(9), milliseconds(12)));
      held_.clear();
      slot_ = Slot();
      exposed_ = false;
      ++closes_;
    }
    return true;
  }

  bool take() {
    if (last_) {
      held_.clear();
      finish();
      return true;
    }
    auto arrival = slot_.wait(soon());
    if (arrival.code() == Code::timeout) return false;
    if (!arrival.ok()) {
      explain(arrival.status());
      return true;
    }
    held_.push_back(std::move(arrival).value());
    const Label label = read_label(held_.back().tensor(), edge_);
    const bool follows = label.attach == attach_ && label.count == count_ + 1;
    const bool begins = label.attach > attach_ && label.count == 1;
    if (!follows && !begins)
      throw std::runtime_error(
          fmt::format("slot \"{}\": tensor {} of attach {} came after tensor {} of attach {}",
                      edge_.spec.name, label.count, label.attach, count_, attach_));
    attach_ = label.attach;
    count_ = label.count;
    left_ = label.left;
    last_ = label.left == 0;
    return true;
  }

  std::string where() const override {
    return fmt::format("rank {} waits, tensor {} of attach {} was the last, {} held", edge_.owner,
                       count_, attach_, held_.size());
  }
  void finish() override {
    held_.clear();
    slot_ = Slot();
    exposed_ = false;
    End::finish();
  }

  Slot slot_;
  bool exposed_ = true;
  std::deque<Arrival> held_;
  int closes_ = 0;
  std::uint32_t attach_ = 0;
  std::uint32_t count_ = 0;
  std::int64_t left_ = kPutsPerEdge;
  bool last_ = false;
};

}  // namespace

std::unique_ptr<End> make_put_owner(SimJob& job, World& world, const Traffic& traffic,
                                    const Edge& edge) {
  return std::make_unique<PutOwner>(job, world, traffic, edge, edge.other);
}

std::unique_ptr<End> make_put_writer(SimJob& job, World& world, const Traffic& traffic,
                                     const Edge& edge) {
  return std::make_unique<PutWriter>(job, world, traffic, edge, edge.owner);
}

}  // namespace weft::tests
