// Mixed traffic between all ranks for some time: every byte is right, and both ends count alike.
#include <algorithm>
#include <array>
#include <deque>
#include <random>
#include <vector>

#include "tests/conformance/body.hpp"
#include "tests/conformance/ends.hpp"
#include "tests/conformance/meeting.hpp"
#include "tests/conformance/settings.hpp"
#include "tests/support/edges.hpp"

namespace weft::conformance {
namespace {

using std::chrono::microseconds;
using tests::edge_counters;
using tests::mix;
using tests::pattern_of;

using Random = std::mt19937_64;

Deadline shortly(Random& random) { return Deadline::after(microseconds(random() % 100)); }

/// The slots between this rank and a peer, one each way, of one placement.
class Traffic {
 public:
  Traffic(World& world, int peer, Placement placement)
      : world_(world),
        check_(world),
        peer_(peer),
        slot_(world.expose(owned(spec(peer, world.rank(), placement)))),
        totals_(world.expose(totals_spec(slot_.spec()))) {}
  void attach() {
    const auto out = spec(world_.rank(), peer_, slot_.spec().placement);
    remote_ = world_.attach(peer_, out);
    totals_out_ = world_.attach(peer_, totals_spec(out));
  }

  void send(Random& random) {
    if (pending_.size() == 8) return take_back(random);
    const auto tensor = allocate_source(world_, DType::u8, shape(world_.rank(), peer_, put_ + 1));
    fill(world_, tensor, pattern(world_.rank(), peer_, ++put_));
    pending_.push_back(remote_.put(tensor));
  }
  void take_back(Random& random) {
    if (pending_.empty()) return;
    const Status status = pending_.front().wait(shortly(random));
    if (status.code() == Code::timeout) return;
    check_.ok(status, "put");
    pending_.pop_front();
  }
  void receive(Random& random) {
    const auto arrival = slot_.wait(shortly(random));
    if (arrival.code() == Code::timeout) return;
    check_.ok(arrival.status(), "wait");
    check_.equal(arrival->sequence(), ++got_, "sequence");
    check_.holds(arrival->tensor(), pattern(peer_, world_.rank(), got_), slot_.spec().name);
  }
  /// After the last send: tells the owner how many tensors and bytes were put, once all puts have
  /// completed.
  void finish(Random& random) {
    if (!pending_.empty() || announced_) return take_back(random);
    const auto mine = edge_counters(world_, remote_.spec().name, Role::puts);
    check_.equal(mine.bytes_copied, 0U, "bytes copied");
    check_.equal(mine.transfers, put_, "transfers of the writer");
    const auto totals = world_.allocate(DType::i64, {2});
    totals.as<std::int64_t>()[0] = static_cast<std::int64_t>(mine.transfers);
    totals.as<std::int64_t>()[1] = static_cast<std::int64_t>(mine.bytes_moved);
    check_.ok(totals_out_.put(totals).wait(), "totals");
    announced_ = true;
  }
  /// Whether all puts of both directions have arrived; then both ends have counted alike.
  bool finished() {
    if (expected_ < 0 && totals_.ready()) {
      const auto totals = check_.ok(totals_.wait(), "totals");
      expected_ = totals.as<std::int64_t>()[0];
      expected_bytes_ = static_cast<std::uint64_t>(totals.as<std::int64_t>()[1]);
    }
    if (!announced_ || expected_ < 0 || got_ < static_cast<std::uint64_t>(expected_)) return false;
    const auto here = edge_counters(world_, slot_.spec().name, Role::receives);
    check_.equal(here.transfers, static_cast<std::uint64_t>(expected_), "transfers at both ends");
    check_.equal(here.bytes_moved, expected_bytes_, "bytes moved at both ends");
    return true;
  }

 private:
  static SlotSpec spec(int writer, int owner, Placement placement) {
    return {.name = std::to_string(writer) + " to " + std::to_string(owner) +
                    (placement == Placement::fixed ? " fixed" : " dynamic"),
            .dtype = DType::u8,
            .shape = {static_cast<std::int64_t>(mix(pattern_of(writer, owner, 0)) % 50'000)},
            .depth = 4,
            .placement = placement};
  }
  static SlotSpec totals_spec(const SlotSpec& of) {
    return {.name = "totals " + of.name, .dtype = DType::i64, .shape = {2}};
  }
  Shape shape(int writer, int owner, std::uint64_t n) const {
    if (slot_.spec().placement == Placement::fixed) return remote_.spec().shape;
    return {static_cast<std::int64_t>(mix(pattern_of(writer, owner, n)) % 20'000)};
  }
  std::uint64_t pattern(int writer, int owner, std::uint64_t n) const {
    return pattern_of(writer, owner * 2 + static_cast<int>(slot_.spec().placement), n);
  }

  World& world_;
  Check check_;
  int peer_;
  Slot slot_;
  Slot totals_;
  RemoteSlot remote_;
  RemoteSlot totals_out_;
  std::deque<Request> pending_;
  std::uint64_t put_ = 0;
  std::uint64_t got_ = 0;
  bool announced_ = false;
  std::int64_t expected_ = -1;
  std::uint64_t expected_bytes_ = 0;
};

/// A slot that every rank publishes and every rank reads.
class News {
 public:
  explicit News(World& world)
      : world_(world), check_(world), slot_(world.expose_published(owned(kSpec))) {
    for (int peer = 0; peer < world.size(); ++peer)
      remotes_.push_back(world.attach_published(peer, kSpec));
  }
  void publish() {
    fill(world_, check_.ok(slot_.next(), "next"), pattern_of(world_.rank(), 999, ++version_));
    check_.ok(slot_.publish(), "publish");
  }
  void read(Random& random) {
    const auto peer = random() % remotes_.size();
    const auto view = remotes_[peer].view(shortly(random));
    if (view.code() == Code::timeout) return;
    check_.ok(view.status(), "view");
    check_.holds(view->tensor(), pattern_of(static_cast<int>(peer), 999, view->sequence()), "news");
  }

 private:
  static inline const PublishedSpec kSpec{
      .name = "news", .dtype = DType::u8, .shape = {30'000}, .depth = 3};
  World& world_;
  Check check_;
  PublishedSlot slot_;
  std::vector<PublishedReader> remotes_;
  std::uint64_t version_ = 0;
};

}  // namespace

void soak(World& world) {
  const Check check(world);
  Meeting meeting(world);
  Random random(mix(settings().seed + static_cast<std::uint64_t>(world.rank())));
  std::vector<Traffic> all;
  for (int peer = 0; peer < world.size(); ++peer)
    for (const auto placement : {Placement::fixed, Placement::dynamic})
      all.emplace_back(world, peer, placement);
  for (Traffic& traffic : all) traffic.attach();
  News news(world);
  const auto end = Deadline::after(settings().soak);
  while (!end.passed()) {
    Traffic& traffic = all[random() % all.size()];
    switch (random() % 8) {
      case 0:
        news.publish();
        break;
      case 1:
        news.read(random);
        break;
      case 2:
      case 3:
      case 4:
        traffic.send(random);
        break;
      default:
        traffic.receive(random);
    }
  }
  const auto limit = Deadline::after(std::chrono::seconds(60));
  const auto finished = [](Traffic& traffic) { return traffic.finished(); };
  while (!std::ranges::all_of(all, finished)) {
    check(!limit.passed(), "what was put has not all arrived");
    for (Traffic& traffic : all) {
      traffic.finish(random);
      traffic.receive(random);
    }
  }
  meeting.wait();
}

}  // namespace weft::conformance
