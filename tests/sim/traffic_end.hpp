// The common parts of all ends of random traffic: labels that identify whole tensors, and steps
// that may not stand still.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "p2p/transport/sim/random.hpp"
#include "tests/pattern.hpp"
#include "tests/sim/traffic.hpp"

namespace weft::tests {

/// One slot, as both of its ends derive it from the seed.
struct Edge {
  int id = 0;
  int owner = 0;
  int other = 0;  ///< the writer, or a reader
  SlotSpec spec;
  bool published = false;

  PublishedSpec published_spec() const {
    return {.name = spec.name, .dtype = spec.dtype, .shape = spec.shape, .depth = spec.depth};
  }
};

/// The beginning of every tensor; the rest follows from it.
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

Label make_label(int edge, std::uint32_t attach, std::int64_t count, std::int64_t left);
/// Writes what follows the label.
void fill_after_label(const Tensor& tensor, int edge, const Label& label);
/// The label of a tensor that is whole; throws what is wrong with one that is not.
Label read_label(const Tensor& tensor, const Edge& edge);

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
  void step();

 protected:
  /// Whether anything moved.
  virtual bool act() = 0;
  virtual std::string where() const = 0;
  virtual void finish() { done_ = true; }

  Deadline soon() {
    return Deadline::after(random_.between(std::chrono::nanoseconds(0), patience_));
  }
  /// A failure that a loss explains ends the edge; any other is thrown.
  void explain(const Status& status);

  SimJob& job_;
  World& world_;
  const Edge edge_;
  const bool losses_;
  const int peer_;
  p2p::sim::Random random_;
  bool done_ = false;

 private:
  std::chrono::nanoseconds patience_ = std::chrono::microseconds(50);
  Clock::time_point moved_ = Clock::now();
  int idle_ = 0;  ///< steps since then
};

inline void attach(RemoteSlot& remote, World& world, const Edge& edge, bool by_name,
                   Deadline deadline) {
  remote = by_name ? world.attach(edge.owner, edge.spec.name, deadline)
                   : world.attach(edge.owner, edge.spec, deadline);
}
inline void attach(PublishedReader& reader, World& world, const Edge& edge, bool by_name,
                   Deadline deadline) {
  reader = by_name ? world.attach_published(edge.owner, edge.spec.name, deadline)
                   : world.attach_published(edge.owner, edge.published_spec(), deadline);
}

/// Attaches, again and again; what both kinds of other ends share.
template <typename Remote>
class Attached : public End {
 public:
  using End::End;

 protected:
  /// True if attached now.
  bool attach() {
    try {
      const bool by_name = !random_.chance(0.5);
      tests::attach(remote_, world_, edge_, by_name, soon());
      attached_ = true;
      ++attaches_;
    } catch (const Error& error) {
      const Code code = error.status().code();
      // Its last attachment may still be held: the owner hears of the end that is gone in its own
      // time.
      if (code != Code::timeout && code != Code::writer_taken) explain(error.status());
      refusal_ = error.what();
    }
    return attached_;
  }
  virtual void detach() {
    attached_ = false;
    remote_ = Remote();
  }
  void finish() override {
    detach();
    End::finish();
  }

  Remote remote_;
  bool attached_ = false;
  std::uint32_t attaches_ = 0;
  std::string refusal_;  ///< of the last attach that failed
};

// An edge's two ends, each for the rank that it lies at.
std::unique_ptr<End> make_put_owner(SimJob& job, World& world, const Traffic& traffic,
                                    const Edge& edge);
std::unique_ptr<End> make_put_writer(SimJob& job, World& world, const Traffic& traffic,
                                     const Edge& edge);
std::unique_ptr<End> make_publisher(SimJob& job, World& world, const Traffic& traffic,
                                    const Edge& edge);
std::unique_ptr<End> make_reader(SimJob& job, World& world, const Traffic& traffic,
                                 const Edge& edge);

}  // namespace weft::tests
