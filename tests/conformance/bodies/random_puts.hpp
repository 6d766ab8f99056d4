// One slot that a peer writes, of two in a random job: its owner's end and its writer's. The slot
// lives through several generations: closed early, exposed again with another contract.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/conformance/check.hpp"
#include "weft/weft.hpp"

namespace weft::conformance {

using Random = std::mt19937_64;

inline constexpr int kGenerations = 3;

/// Parameters of a slot that both ends derive from the seed, without communication.
struct Line {
  std::uint64_t seed = 0;
  int writer = 0;
  int owner = 0;
  Placement placement = Placement::fixed;

  std::string name() const;
  /// The depth tells one generation from the next.
  SlotSpec spec(int generation) const;
  /// The shape of the `n`-th tensor of a generation.
  Shape shape(int generation, std::uint64_t n) const;
  std::uint64_t pattern(int generation, std::uint64_t n) const;
};

/// Takes arrivals, holds some, lets them go in any order; after some of them closes the slot.
class RandomOwner {
 public:
  RandomOwner(World& world, const Line& line) : world_(world), check_(world), line_(line) {}

  void step(Random& random);
  bool done() const { return generation_ == kGenerations; }

 private:
  void take(Random& random);

  World& world_;
  Check check_;
  Line line_;
  int generation_ = 0;
  std::uint64_t quota_ = 0;
  std::uint64_t seen_ = 0;
  std::optional<Slot> slot_;
  std::deque<Arrival> held_;
};

/// Attaches, gives up attaching, puts, cancels, detaches.
class RandomWriter {
 public:
  RandomWriter(World& world, const Line& line) : world_(world), check_(world), line_(line) {}

  void step(Random& random);
  bool done() const { return done_; }

 private:
  struct Pending {
    Request request;
    Tensor tensor;
    std::shared_ptr<std::vector<std::byte>> own;  ///< the tensor's memory, if it is the user's
  };
  void attach(Random& random);
  void put(Random& random);
  void wait_for_first(Random& random);
  void cancel_last();
  void detach();
  void on_closed();

  World& world_;
  Check check_;
  Line line_;
  int generation_ = -1;
  std::uint64_t put_ = 0;  ///< of this generation, those under way included
  bool done_ = false;
  std::optional<RemoteSlot> remote_;
  std::deque<Pending> pending_;
};

}  // namespace weft::conformance
