// Whatever the order of puts, waits, holds and releases: every tensor arrives once, whole, in
// order. Every rank owns one slot per peer; each rank follows its own random script.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <random>
#include <vector>

#include "tests/pattern.hpp"
#include "tests/threads/slots/ranks.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

constexpr int kSlotsPerPair = 2;
constexpr std::uint64_t kTensors = 60;  // per slot

/// WEFT_TEST_SEED repeats a run; otherwise every run is a new one.
std::uint64_t seed() {
  const char* given = std::getenv("WEFT_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
}

/// Both ends derive the same contract from the seed, without talking.
SlotSpec random_spec(std::uint64_t seed, int writer, int owner, int slot) {
  std::mt19937_64 random(mix(seed ^ pattern_of(writer, slot, static_cast<std::uint64_t>(owner))));
  constexpr std::int64_t kSizes[] = {0, 1, 7, 56, 57, 64, 1000, 4096, 70'001};
  return {.name = std::to_string(writer) + "." + std::to_string(slot),
          .dtype = DType::u8,
          .shape = {kSizes[random() % std::size(kSizes)]},
          .depth = static_cast<std::uint32_t>(1 + random() % 7)};
}

/// The writer's end of one slot: some puts at once, some pending, some cancelled.
class WriterEnd {
 public:
  WriterEnd(World& world, RemoteSlot remote, std::uint64_t id)
      : world_(world), remote_(std::move(remote)), id_(id) {}

  bool done() const { return next_ > kTensors && pending_.empty(); }

  void step(std::mt19937_64& random) {
    if (next_ <= kTensors && pending_.size() < 10 && random() % 3 != 0) {
      const auto& spec = remote_.spec();
      auto tensor = world_.allocate(spec.dtype, spec.shape);
      fill(tensor, mix(id_ + next_));
      const auto until = random() % 2 == 0 ? Until::reusable : Until::delivered;
      pending_.push_back({remote_.put(tensor, until), tensor});
      ++next_;
      if (random() % 8 == 0) cancel_last();
      return;
    }
    if (pending_.empty()) return;
    auto& oldest = pending_.front();
    const auto status = oldest.request.wait(Deadline::after(milliseconds(random() % 3)));
    if (status.code() == Code::timeout) return;
    status.or_throw();
    fill(oldest.tensor, 0);  // it may be written again: what arrives must not change
    pending_.pop_front();
  }

 private:
  struct Pending {
    Request request;
    Tensor tensor;
  };

  void cancel_last() {
    auto& last = pending_.back().request;
    (void)last.cancel();
    const auto status = last.wait();
    if (status.code() == Code::cancelled) --next_;
    if (status.code() == Code::cancelled || status.ok())
      pending_.pop_back();
    else
      status.or_throw();
  }

  World& world_;
  RemoteSlot remote_;
  std::uint64_t id_;
  std::uint64_t next_ = 1;
  std::deque<Pending> pending_;
};

/// The owner's end of one slot: takes arrivals, holds some, lets them go in any order.
class ReaderEnd {
 public:
  ReaderEnd(Slot slot, std::uint64_t id) : slot_(std::move(slot)), id_(id) {}

  bool done() const { return seen_ == kTensors && held_.empty(); }

  void step(std::mt19937_64& random) {
    const bool may_take = held_.size() < slot_.spec().depth && seen_ < kTensors;
    if (may_take && random() % 3 != 0) {
      auto result = slot_.wait(Deadline::after(milliseconds(random() % 3)));
      if (result.code() == Code::timeout) return;
      held_.push_back(std::move(result).value());
      if (held_.back().sequence() != ++seen_)
        throw std::runtime_error("a sequence number was skipped");
    } else if (!held_.empty()) {
      const auto at = held_.begin() + static_cast<std::ptrdiff_t>(random() % held_.size());
      if (!holds(at->tensor(), mix(id_ + at->sequence())))
        throw std::runtime_error("slot " + slot_.spec().name + " tensor " +
                                 std::to_string(at->sequence()) + " is not the one that was put");
      held_.erase(at);
    }
  }

 private:
  Slot slot_;
  std::uint64_t id_;
  std::uint64_t seen_ = 0;
  std::deque<Arrival> held_;
};

class RandomSequences : public testing::TestWithParam<int> {};

TEST_P(RandomSequences, EveryTensorArrivesOnceWholeAndInOrder) {
  const auto run_seed = seed();
  std::cout << "WEFT_TEST_SEED=" << run_seed << " repeats this run\n";
  const int ranks = GetParam();
  Meeting meeting(ranks);
  const auto id = [](int writer, int owner, int slot) {
    return pattern_of(writer, owner * kSlotsPerPair + slot, 0);
  };
  const auto script = [&](World& world) {
    const int self = world.rank();
    std::mt19937_64 random(mix(run_seed + static_cast<std::uint64_t>(self)));
    std::vector<ReaderEnd> readers;
    std::vector<WriterEnd> writers;
    for (int peer = 0; peer < ranks; ++peer)
      for (int slot = 0; slot < kSlotsPerPair; ++slot)
        readers.emplace_back(world.expose(random_spec(run_seed, peer, self, slot)),
                             id(peer, self, slot));
    for (int peer = 0; peer < ranks; ++peer)
      for (int slot = 0; slot < kSlotsPerPair; ++slot)
        writers.emplace_back(world, world.attach(peer, random_spec(run_seed, self, peer, slot)),
                             id(self, peer, slot));
    const auto done = [](const auto& ends) {
      return std::all_of(ends.begin(), ends.end(), [](const auto& end) { return end.done(); });
    };
    const auto limit = Deadline::after(std::chrono::seconds(40));
    while (!done(readers) || !done(writers)) {
      if (limit.passed()) throw std::runtime_error("the script does not come to its end");
      if (random() % 2 == 0)
        readers[random() % readers.size()].step(random);
      else
        writers[random() % writers.size()].step(random);
    }
    meeting.wait();
  };
  EXPECT_NO_THROW(run_ranks(ranks, script, settings())) << "seed " << run_seed;
}

INSTANTIATE_TEST_SUITE_P(Slots, RandomSequences, testing::Values(1, 2, 3, 5),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace weft::tests
