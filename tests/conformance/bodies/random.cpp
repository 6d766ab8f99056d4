// Random operations in a random order: every tensor arrives once, whole and in order. Every rank
// owns slots that all ranks write or read, and follows a random script of its own.
#include <algorithm>
#include <vector>

#include "tests/conformance/bodies/random_news.hpp"
#include "tests/conformance/bodies/random_puts.hpp"
#include "tests/conformance/body.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/settings.hpp"

namespace weft::conformance {
namespace {

/// A rank that is done publishes once; the others go on serving until all ranks have published.
class AllDone {
 public:
  explicit AllDone(World& world) : check_(world), slot_(world.expose_published(kSpec)) {
    for (int peer = 0; peer < world.size(); ++peer)
      remotes_.push_back(world.attach_published(peer, kSpec));
  }
  bool said() const { return said_; }
  void say() {
    check_.ok(slot_.next().status(), "next");
    check_.ok(slot_.publish(), "publish");
    said_ = true;
  }
  bool heard() const {
    return std::ranges::all_of(remotes_,
                               [](const PublishedReader& remote) { return remote.ready(); });
  }

 private:
  static inline const PublishedSpec kSpec{.name = "done", .shape = {1}};
  Check check_;
  PublishedSlot slot_;
  std::vector<PublishedReader> remotes_;
  bool said_ = false;
};

void survives_random_sequences(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Random random(tests::mix(settings().seed + static_cast<std::uint64_t>(world.rank())));
  RandomPublisher publisher(world);
  std::vector<RandomReader> readers;
  std::vector<RandomOwner> owners;
  std::vector<RandomWriter> writers;
  for (int peer = 0; peer < world.size(); ++peer) {
    readers.emplace_back(world, peer);
    for (const auto placement : {Placement::fixed, Placement::dynamic}) {
      owners.emplace_back(world, Line{settings().seed, peer, world.rank(), placement});
      writers.emplace_back(world, Line{settings().seed, world.rank(), peer, placement});
    }
  }
  AllDone all_done(world);
  const auto done = [](const auto& ends) {
    return std::ranges::all_of(ends, [](const auto& end) { return end.done(); });
  };
  const auto step_one_of = [&](auto& ends) { ends[random() % ends.size()].step(random); };
  const auto limit = Deadline::after(std::chrono::seconds(60));
  while (!all_done.heard()) {
    check(!limit.passed(), "the script does not come to its end");
    switch (random() % 4) {
      case 0:
        publisher.step(random);
        break;
      case 1:
        step_one_of(readers);
        break;
      case 2:
        step_one_of(owners);
        break;
      default:
        step_one_of(writers);
    }
    if (!all_done.said() && done(readers) && done(owners) && done(writers)) all_done.say();
    if (all_done.said() || random() % 8 == 0) meeting.pause(std::chrono::microseconds(50));
  }
  meeting.wait();
}

}  // namespace

Bodies random_bodies() { return {{"survives_random_sequences", survives_random_sequences}}; }

}  // namespace weft::conformance
