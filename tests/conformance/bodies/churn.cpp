// Thousands of slots are exposed and closed beside steady traffic: nothing of them stays.
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/holdings.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/ring.hpp"
#include "tests/conformance/settings.hpp"

namespace weft::conformance {
namespace {

using tests::pattern_of;

std::uint64_t open_descriptors() {
  return static_cast<std::uint64_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

/// The private memory of this process in bytes: without the arenas, which are shared.
std::uint64_t private_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  std::uint64_t shared = 0;
  statm >> size >> resident >> shared;
  return (resident - shared) * 4096;
}

SlotSpec spec_of(int number) {
  return {.name = "churned " + std::to_string(number),
          .dtype = DType::u8,
          .shape = {number % 4 * 50},
          .depth = static_cast<std::uint32_t>(1 + number % 3),
          .placement = number % 5 == 3 ? Placement::dynamic : Placement::fixed};
}

bool is_published(int number) { return number % 5 == 4; }

PublishedSpec published_spec_of(int number) {
  const SlotSpec spec = spec_of(number);
  return {.name = spec.name, .dtype = spec.dtype, .shape = spec.shape, .depth = spec.depth};
}

/// One of this rank's slots, of either kind.
struct Own {
  Slot slot{};
  PublishedSlot published{};
};
/// An end of one of the next rank's slots.
struct Remote {
  RemoteSlot writer{};
  PublishedReader reader{};
};

class Churn {
 public:
  explicit Churn(World& world)
      : world_(world),
        check_(world),
        meeting_(world, "churn"),
        steady_(world, {.name = "steady", .dtype = DType::u8, .shape = {3000}, .depth = 2}),
        source_(world.allocate(DType::u8, {3000})),
        small_(world.allocate(DType::u8, {150})) {}

  /// Exposes `count` slots, attaches to `count` slots of the next rank, uses them, attaches again,
  /// and closes all of them.
  void cycle(int count) {
    std::vector<Own> slots;
    std::vector<Remote> remotes;
    std::vector<Request> requests;
    for (int i = 0; i < count; ++i) slots.push_back(expose(i));
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < count; ++i) {
        remotes.push_back(attach(i));
        requests.push_back(write(slots[static_cast<std::size_t>(i)], remotes.back(), i));
        if (i % 16 == 0) pass();
      }
      for (int i = 0; i < count; ++i)
        read(slots[static_cast<std::size_t>(i)], remotes[static_cast<std::size_t>(i)], i);
      for (Request& request : requests) check_.ok(request.wait(), "put");
      requests.clear();
      remotes.clear();
      meeting_.wait();  // the previous rank has seen what this one published
    }
  }
  void meet() { meeting_.wait(); }
  /// One rank after the other: counting opens a descriptor, and several ranks may share a process.
  std::uint64_t descriptors() {
    std::uint64_t count = 0;
    for (int rank = 0; rank < world_.size(); ++rank) {
      if (rank == world_.rank()) count = open_descriptors();
      meeting_.wait();
    }
    return count;
  }
  template <typename Condition>
  bool soon(Condition&& holds) {
    return meeting_.soon(std::forward<Condition>(holds), std::chrono::seconds(30));
  }

 private:
  Own expose(int number) {
    if (is_published(number))
      return {.published = world_.expose_published(published_spec_of(number))};
    return {.slot = world_.expose(spec_of(number))};
  }
  Remote attach(int number) {
    const int owner = next_of(world_);
    if (is_published(number))
      return {.reader = world_.attach_published(owner, published_spec_of(number))};
    return {.writer = world_.attach(owner, spec_of(number))};
  }
  Request write(Own& own, Remote& remote, int number) {
    if (is_published(number)) {
      check_.ok(own.published.next().status(), "next");
      check_.ok(own.published.publish(), "publish");
      return {};
    }
    return remote.writer.put(small_.part(0, own.slot.spec().shape));
  }
  void read(Own& own, Remote& remote, int number) {
    if (is_published(number))
      check_.ok(remote.reader.view(), "view of slot " + std::to_string(number)).release();
    else
      check_.ok(own.slot.wait(), "wait on slot " + std::to_string(number)).release();
  }
  /// One step of the traffic that goes on all the time.
  void pass() {
    fill(world_, source_, pattern_of(world_.rank(), 1, ++passed_));
    check_.ok(steady_.remote.put(source_).wait(), "steady put");
    check_.holds(check_.ok(steady_.slot.wait(), "steady wait").tensor(),
                 pattern_of(previous_of(world_), 1, passed_), "steady tensor");
  }

  World& world_;
  Check check_;
  Meeting meeting_;
  RingEdge steady_;
  Tensor source_;
  Tensor small_;
  std::uint64_t passed_ = 0;
};

}  // namespace

void churn(World& world) {
  const Check check(world);
  Churn churn(world);
  const int count = std::max(1, settings().churn_slots / world.size());
  const auto settle = [&](const Report& before) {
    churn.meet();
    std::string left;
    const bool settled = churn.soon([&] {
      left = left_behind(before, world.report());
      return left.empty();
    });
    check(settled, "after a cycle: " + left);
    churn.meet();
  };
  churn.meet();
  const Report start = world.report();
  churn.cycle(count);  // arenas grow to what they need, and other ranks get to know their chunks
  settle(start);
  const auto descriptors = churn.descriptors();
  const auto bytes = private_bytes();
  const Report grown = world.report();
  churn.meet();
  for (int i = 1; i < settings().churn_cycles; ++i) {
    churn.cycle(count);
    settle(grown);
  }
  check.equal(churn.descriptors(), descriptors, "open descriptors");
  for (std::size_t i = 0; i < grown.arenas.size(); ++i)
    check.equal(world.report().arenas[i].chunks, grown.arenas[i].chunks,
                "chunks of the " + grown.arenas[i].sort + " arena");
  const std::uint64_t slack = bytes / 4 + (8U << 20);
  check(kSanitized || private_bytes() < bytes + slack,
        "private memory grew from " + std::to_string(bytes) + " to " +
            std::to_string(private_bytes()) + " bytes");
  churn.meet();
}

}  // namespace weft::conformance
