// Traffic through slots that their owner publishes.
#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <stdexcept>

#include "tests/sim/traffic_end.hpp"

namespace weft::tests {
namespace {

using std::chrono::microseconds;

constexpr std::uint64_t kVersions = 12;

class Publisher final : public End {
 public:
  Publisher(SimJob& job, World& world, const Traffic& traffic, const Edge& edge, int peer)
      : End(job, world, traffic, edge, peer),
        slot_(world.expose_published(edge.published_spec())) {}

 private:
  bool act() override {
    const auto buffer = slot_.next(soon());
    if (buffer.code() == Code::timeout) return false;
    if (!buffer.ok()) {
      explain(buffer.status());
      return true;
    }
    ++version_;
    const Label label = make_label(edge_.id, 1, static_cast<std::int64_t>(version_),
                                   static_cast<std::int64_t>(kVersions - version_));
    std::memcpy((*buffer).data(), &label, sizeof label);
    if (random_.chance(0.5)) job_.sleep(world_, random_.between(microseconds(0), microseconds(9)));
    fill_after_label(*buffer, edge_.id, label);
    slot_.publish().or_throw();
    if (random_.chance(0.3)) job_.sleep(world_, random_.between(microseconds(0), microseconds(30)));
    done_ = version_ == kVersions;  // the slot stays: its reader may be late
    return true;
  }

  std::string where() const override {
    return fmt::format("rank {} publishes, version {} was the last", edge_.owner, version_);
  }

  PublishedSlot slot_;
  std::uint64_t version_ = 0;
};

class Reader final : public Attached<PublishedReader> {
 public:
  using Attached::Attached;

 private:
  bool act() override {
    if (!attached_) return attach();
    if (held_ && random_.chance(0.7)) {
      read_label(held_->tensor(), edge_);
      held_.reset();
      if (seen_ == kVersions) finish();
      return true;
    }
    if (!held_ && seen_ < kVersions && random_.chance(0.05)) {
      detach();
      return true;
    }
    return random_.chance(0.5) ? view() : get();
  }

  bool view() {
    if (held_) return true;
    auto arrival = remote_.view(soon());
    if (arrival.code() == Code::timeout) return false;
    if (!arrival.ok()) {
      explain(arrival.status());
      return true;
    }
    held_ = std::move(arrival).value();
    check(held_->tensor(), held_->sequence());
    return true;
  }

  bool get() {
    if (held_) return true;
    const Tensor into = world_.allocate(edge_.spec.dtype, edge_.spec.shape);
    const Status status = remote_.get(into, soon());
    if (status.code() == Code::timeout) return false;
    if (!status.ok()) {
      explain(status);
      return true;
    }
    check(into, 0);
    if (seen_ == kVersions) finish();
    return true;
  }

  void check(const Tensor& tensor, std::uint64_t sequence) {
    const Label label = read_label(tensor, edge_);
    if (label.count < seen_ || (sequence != 0 && sequence != label.count))
      throw std::runtime_error(fmt::format("slot \"{}\": version {} came as {}, after {}",
                                           edge_.spec.name, label.count, sequence, seen_));
    seen_ = label.count;
  }

  void detach() override {
    held_.reset();
    Attached::detach();
  }

  std::string where() const override {
    return fmt::format("rank {} reads, version {} was the last; last refusal: {}", edge_.other,
                       seen_, refusal_);
  }

  std::optional<Arrival> held_;
  std::uint64_t seen_ = 0;
};

}  // namespace

std::unique_ptr<End> make_publisher(SimJob& job, World& world, const Traffic& traffic,
                                    const Edge& edge) {
  return std::make_unique<Publisher>(job, world, traffic, edge, edge.other);
}

std::unique_ptr<End> make_reader(SimJob& job, World& world, const Traffic& traffic,
                                 const Edge& edge) {
  return std::make_unique<Reader>(job, world, traffic, edge, edge.owner);
}

}  // namespace weft::tests
