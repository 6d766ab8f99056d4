// Rows for publications and their readers. An error names the publisher's address, or the number of
// late subscribers, since a reader knows no ranks.
#include <array>
#include <thread>

#include "tests/deadlines/row.hpp"
#include "weft/publication.hpp"

namespace weft::tests {
namespace {

using pslib::Publication;
using pslib::Publisher;
using pslib::Reader;

constexpr auto kSubscriberSetUp = std::chrono::seconds(10);

struct PublisherUnderTest {
  Publisher publisher;
  Publication publication;

  explicit PublisherUnderTest(Side& side)
      : publisher(side.world, {.address = side.subscribers, .token_file = side.token_file}),
        publication(publisher.publication("model", {{"weights", DType::f32, {1 << 20}}})) {}
  void publish(World& world) {
    const std::array tensors{world.allocate(DType::f32, {1 << 20})};
    publication.publish(tensors).or_throw();
  }
};

std::shared_ptr<Reader> join_as_subscriber(const Side& side, Deadline deadline) {
  return std::make_shared<Reader>(Reader::join(
      "model", {.address = side.subscribers, .token_file = side.token_file}, deadline));
}

Case leaves(Side& side) {
  if (!side.calls()) {
    auto reader = join_as_subscriber(side, Deadline::after(kSubscriberSetUp));
    (void)reader->pull_latest(Deadline::after(kSubscriberSetUp));
    return {.end = [reader] {}};
  }
  auto publishing = std::make_shared<PublisherUnderTest>(side);
  publishing->publish(side.world);
  while (publishing->publisher.subscribers() == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  World* const world = &side.world;
  return {.call = [=](Deadline deadline) {
    publishing->publish(*world);
    return said(publishing->publisher.leave(deadline));
  }};
}

Case joins(Side& side) {
  const Side here = side;
  if (side.calls())
    return {.call = [=](Deadline deadline) {
      return thrown([&] { (void)join_as_subscriber(here, deadline); });
    }};
  auto publishing = std::make_shared<std::unique_ptr<PublisherUnderTest>>();
  return {.part =
              [=] {
                Side there = here;
                *publishing = std::make_unique<PublisherUnderTest>(there);
              },
          .end = [publishing] { publishing->reset(); }};
}

Case pulls(Side& side, bool newer) {
  if (!side.calls()) {
    auto publishing = std::make_shared<PublisherUnderTest>(side);
    if (newer) publishing->publish(side.world);
    World* const world = &side.world;
    return {.part = [=] { publishing->publish(*world); }, .end = [publishing] {}};
  }
  auto reader = join_as_subscriber(side, Deadline::after(kSubscriberSetUp));
  if (newer) (void)reader->pull_latest(Deadline::after(kSubscriberSetUp));
  return {.call = [=](Deadline deadline) {
    return said(newer ? reader->pull_newer(deadline) : reader->pull_latest(deadline));
  }};
}

}  // namespace

std::vector<Row> subscriber_rows() {
  return {
      {"Publisher::leave", leaves, false},
      {"Reader::join", joins, false},
      {"Reader::pull_latest", [](Side& side) { return pulls(side, false); }, false},
      {"Reader::pull_newer", [](Side& side) { return pulls(side, true); }, false},
  };
}

}  // namespace weft::tests
