// A published slot in a random job: its owner, who closes and exposes it again, and its readers.
#pragma once

#include <deque>
#include <optional>
#include <random>

#include "tests/conformance/check.hpp"
#include "weft/weft.hpp"

namespace weft::conformance {

/// Publishes in every step; closes the first generations of its slot after some steps.
class RandomPublisher {
 public:
  explicit RandomPublisher(World& world) : world_(world), check_(world) {}

  void step(std::mt19937_64& random);

 private:
  World& world_;
  Check check_;
  std::int64_t generation_ = 0;
  std::uint64_t version_ = 0;
  std::optional<PublishedSlot> slot_;
};

/// Views, gets, holds, detaches, comes again, until it has read often enough.
class RandomReader {
 public:
  RandomReader(World& world, int owner) : world_(world), check_(world), owner_(owner) {}

  void step(std::mt19937_64& random);
  bool done() const { return reads_ == 0 && held_.empty(); }

 private:
  void attach(std::mt19937_64& random);
  void read(std::mt19937_64& random);
  void see(const Tensor& tensor, std::uint64_t version);
  void let_one_go(std::mt19937_64& random);
  void detach();

  World& world_;
  Check check_;
  int owner_;
  int reads_ = 15;
  std::int64_t generation_ = 0;
  std::uint64_t version_ = 0;
  std::optional<PublishedReader> remote_;
  std::deque<Arrival> held_;
};

}  // namespace weft::conformance
