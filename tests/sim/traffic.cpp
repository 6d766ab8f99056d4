#include "tests/sim/traffic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "p2p/sim/random.hpp"
#include "tests/pattern.hpp"

namespace weft::tests {
namespace {

using p2p::sim::Random;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kMaxPending = 4;
constexpr std::int64_t kPutsPerEdge = 24;
constexpr std::uint64_t kVersions = 12;
/// No wait of a healthy job takes as long, pauses included.
constexpr seconds kStuck{10};
constexpr int kIdleSteps = 100;  // other ends of the rank may have taken that time

/// One slot, as both of its ends derive it from the seed.
struct Edge {
  int id = 0;
  int owner = 0;
  int other = 0;  ///< the writer, or a reader
  SlotSpec spec;
};

std::vector<Edge> edges_of(const Traffic& traffic) {
  constexpr std::array<std::int64_t, 6> kSizes{16, 56, 57, 208, 1000, 3000};
  Random random(mix(traffic.seed));
  std::vector<Edge> edges;
  for (int owner = 0; owner < traffic.ranks; ++owner)
    for (int other = 0; other < traffic.ranks; ++other) {
      if (random.chance(0.5)) continue;
      Edge edge{.id = static_cast<int>(edges.size()), .owner = owner, .other = other, .spec = {}};
      edge.spec = {.name = fmt::format("edge {}", edge.id),
                   .dtype = DType::u8,
                   .shape = {kSizes[random.below(kSizes.size())]},
                   .depth = static_cast<std::uint32_t>(1 + random.below(4)),
                   .writer = random.chance(0.7) ? Writer::peer : Writer::owner};
      edges.push_back(edge);
    }
  return edges;
}

/// What every tensor begins with; the rest follows from it.
struct Label {
  std::uint32_t attach = 0;  ///< how many times the writer had attached
  std::uint16_t count = 0;   ///< of the tensors put since then, or the version
  std::uint16_t left = 0;    ///< how many more the writer wants to put
  std::uint64_t check = 0;

  std::uint64_t pattern(int edge) const {
    return pattern_of(edge, static_cast<int>(attach), count) ^ left;
  }
};
static_assert(sizeof(Label) == 16);

Label make_label(int edge, std::uint32_t attach, std::int64_t count, std::int64_t left) {
  Label label{.attach = attach,
              .count = static_cast<std::uint16_t>(count),
              .left = static_cast<std::uint16_t>(left)};
  label.check = mix(label.pattern(edge));
  return label;
}

/// The rest of the tensor, from byte `first` on.
void fill_after_label(const Tensor& tensor, int edge, const Label& label, std::size_t first) {
  for (std::size_t at = std::max(first, sizeof label); at < tensor.bytes(); ++at)
    tensor.data()[at] = static_cast<std::byte>(mix(label.pattern(edge) + at));
}

/// The label of a tensor that is whole; throws what is wrong with one that is not.
Label read_label(const Tensor& tensor, const Edge& edge) {
  Label label;
  std::memcpy(&label, tensor.data(), sizeof label);
  bool whole = label.check == mix(label.pattern(edge.id));
  for (std::size_t at = sizeof label; whole && at < tensor.bytes(); ++at)
    whole = tensor.data()[at] == static_cast<std::byte>(mix(label.pattern(edge.id) + at));
  if (!whole) throw std::runtime_error(fmt::format("data mismatch in slot \"{}\"", edge.spec.name));
  return label;
}

/// One end of an edge, which its rank moves on step by step.
class End {
 public:
  End(SimJob& job, World& world, const Traffic& traffic, Edge edge, int peer)
      : job_(job),
        world_(world),
        edge_(std::move(edge)),
        losses_(traffic.losses),
        peer_(peer),
        random_(mix(traffic.seed ^ mix(static_cast<std::uint64_t>(2 * edge_.id) +
                                       (world.rank() == edge_.owner ? 1 : 0)))) {}
  virtual ~End() = default;
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  bool done() const { return done_; }

  /// One step; throws for what must not be.
  void step() {
    if (losses_ && !world_.alive(std::span(&peer_, 1)).ok()) {
      finish();
      return;
    }
    const bool moved = act();
    if (moved) {
      patience_ = microseconds(50);
      moved_ = Clock::now();
      idle_ = 0;
      return;
    }
    ++idle_;
    // Nothing came: longer waits, so that simulated time passes in few steps.
    patience_ = std::min<std::chrono::nanoseconds>(2 * patience_, milliseconds(500));
    if (Clock::now() - moved_ > kStuck && idle_ > kIdleSteps)
      throw std::runtime_error(
          fmt::format("timeout: no progress on slot \"{}\" ({})", edge_.spec.name, where()));
  }

 protected:
  /// Whether anything moved.
  virtual bool act() = 0;
  virtual std::string where() const = 0;
  virtual void finish() { done_ = true; }

  Deadline soon() {
    return Deadline::after(random_.between(std::chrono::nanoseconds(0), patience_));
  }
  /// A failure that a loss explains ends the edge; any other is thrown.
  void explain(const Status& status) {
    const bool lost = status.code() == Code::peer_failed || status.code() == Code::peer_left;
    if (!losses_ || !lost) throw std::runtime_error(status.text());
    finish();
  }

  SimJob& job_;
  World& world_;
  const Edge edge_;
  const bool losses_;
  const int peer_;
  Random random_;
  bool done_ = false;

 private:
  std::chrono::nanoseconds patience_ = microseconds(50);
  Clock::time_point moved_ = Clock::now();
  int idle_ = 0;  ///< steps since then
};

/// Attaches, again and again; what both kinds of other ends share.
class Attached : public End {
 public:
  using End::End;

 protected:
  /// True if attached now.
  bool attach() {
    try {
      remote_ = random_.chance(0.5) ? world_.attach(edge_.owner, edge_.spec, soon())
                                    : world_.attach(edge_.owner, edge_.spec.name, soon());
      attached_ = true;
      ++attaches_;
    } catch (const Error& error) {
      const Code code = error.status().code();
      // Its last seat may still be held: the owner hears of the end that is gone in its own time.
      if (code != Code::timeout && code != Code::writer_taken) explain(error.status());
      refusal_ = error.what();
    }
    return attached_;
  }
  virtual void detach() {
    attached_ = false;
    remote_ = RemoteSlot();
  }
  void finish() override {
    detach();
    End::finish();
  }

  RemoteSlot remote_;
  bool attached_ = false;
  std::uint32_t attaches_ = 0;
  std::string refusal_;  ///< of the last attach that failed
};

class PutWriter final : public Attached {
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
    const Tensor tensor = world_.allocate(edge_.spec.dtype, edge_.spec.shape);
    const Label label = make_label(edge_.id, attaches_, count_ + 1, left_ - 1);
    std::memcpy(tensor.data(), &label, sizeof label);
    fill_after_label(tensor, edge_.id, label, 0);
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
    // The slot was closed: what has not been put is put into the next of its name.
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

class Publisher final : public End {
 public:
  Publisher(SimJob& job, World& world, const Traffic& traffic, const Edge& edge, int peer)
      : End(job, world, traffic, edge, peer), slot_(world.expose(edge.spec)) {}

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
    fill_after_label(*buffer, edge_.id, label, 0);
    slot_.publish().or_throw();
    if (random_.chance(0.3)) job_.sleep(world_, random_.between(microseconds(0), microseconds(30)));
    done_ = version_ == kVersions;  // the slot stays: its reader may be late
    return true;
  }

  std::string where() const override {
    return fmt::format("rank {} publishes, version {} was the last", edge_.owner, version_);
  }

  Slot slot_;
  std::uint64_t version_ = 0;
};

class Reader final : public Attached {
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

void run_traffic(SimJob& job, World& world, const Traffic& traffic) {
  std::vector<std::unique_ptr<End>> ends;
  for (const Edge& edge : edges_of(traffic)) {
    const bool put = edge.spec.writer == Writer::peer;
    if (edge.owner == world.rank()) {
      if (put)
        ends.push_back(std::make_unique<PutOwner>(job, world, traffic, edge, edge.other));
      else
        ends.push_back(std::make_unique<Publisher>(job, world, traffic, edge, edge.other));
    }
    if (edge.other == world.rank()) {
      if (put)
        ends.push_back(std::make_unique<PutWriter>(job, world, traffic, edge, edge.owner));
      else
        ends.push_back(std::make_unique<Reader>(job, world, traffic, edge, edge.owner));
    }
  }
  Random random(mix(traffic.seed + static_cast<std::uint64_t>(world.rank())));
  std::vector<End*> going;
  for (const auto& end : ends) going.push_back(end.get());
  while (!going.empty()) {
    const auto at = going.begin() + static_cast<std::ptrdiff_t>(random.below(going.size()));
    (*at)->step();
    if ((*at)->done()) going.erase(at);
  }
  std::vector<bool>& content = *traffic.content;
  content[static_cast<std::size_t>(world.rank())] = true;
  for (int rank = 0; rank < world.size(); ++rank)
    while (!content[static_cast<std::size_t>(rank)] && world.alive(std::span(&rank, 1)).ok())
      job.sleep(world, milliseconds(1));
}

}  // namespace weft::tests
