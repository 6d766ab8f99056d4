// Publications and their readers. An error there names the publisher's address, or how many subscribers
// are late: a reader knows of no ranks.
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

struct Door {
  Publisher publisher;
  Publication publication;

  explicit Door(Side& side)
      : publisher(side.world, {.address = side.subscribers, .token_file = side.token_file}),
        publication(publisher.publication("model", {{"weights", DType::f32, {1 << 20}}})) {}
  void publish(World& world) {
    const std::array tensors{world.allocate(DType::f32, {1 << 20})};
    publication.publish(tensors).or_throw();
  }
};

std::shared_ptr<Reader> join_as_subscriber(const Side& side, Deadline deadline) {
  return std::make_shared<Reader>(
      Reader::join("model", {.address = side.subscribers, .token_file = side.token_file}, deadline));
}

Case leaves(Side& side) {
  if (!side.calls()) {
    auto reader = join_as_subscriber(side, Deadline::after(kSubscriberSetUp));
    (void)reader->pull_latest(Deadline::after(kSubscriberSetUp));
    return {.end = [reader] {}};
  }
  auto door = std::make_shared<Door>(side);
  door->publish(side.world);
  while (door->publisher.subscribers() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  World* const world = &side.world;
  return {.call = [=](Deadline deadline) {
    door->publish(*world);
    return said(door->publisher.leave(deadline));
  }};
}

Case joins(Side& side) {
  const Side here = side;
  if (side.calls())
    return {.call = [=](Deadline deadline) {
      return thrown([&] { (void)join_as_subscriber(here, deadline); });
    }};
  auto door = std::make_shared<std::unique_ptr<Door>>();
  return {.part =
              [=] {
                Side there = here;
                *door = std::make_unique<Door>(there);
              },
          .end = [door] { door->reset(); }};
}

Case pulls(Side& side, bool newer) {
  if (!side.calls()) {
    auto door = std::make_shared<Door>(side);
    if (newer) door->publish(side.world);
    World* const world = &side.world;
    return {.part = [=] { door->publish(*world); }, .end = [door] {}};
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
