// Rows for slots, their requests and waits for several of them.
#include <array>

#include "tests/deadlines/row.hpp"

namespace weft::tests {
namespace {

constexpr std::int64_t kElements = 1 << 18;

SlotSpec spec_of(const Side& side) {
  return {.name = side.named("slot"), .dtype = DType::f32, .shape = {kElements}, .depth = 1};
}

PublishedSpec published_spec_of(const Side& side) {
  return {.name = side.named("slot"), .dtype = DType::f32, .shape = {kElements}, .depth = 1};
}

/// Rank 1 writes into a slot of rank 0. `by_stream`: the call takes a stream, and is given none.
Case owner_waits(Side& side, SlotSpec spec, bool by_stream = false) {
  if (side.calls()) {
    auto slot = std::make_shared<Slot>(side.world.expose(spec));
    return {.call = [slot, by_stream](Deadline deadline) {
      return said(by_stream ? slot->wait_on(Stream(), deadline) : slot->wait(deadline));
    }};
  }
  auto remote = std::make_shared<RemoteSlot>(side.world.attach(0, spec));
  const Tensor tensor = side.world.allocate(spec.dtype, {kElements});
  return {.part = [remote, tensor] { (void)remote->put(tensor); },
          .end = [remote, tensor] { *remote = RemoteSlot(); }};
}

/// Rank 1 has announced a tensor and stops before rank 0 has read the tensor.
Case owner_reads(Side& side) {
  SlotSpec spec = spec_of(side);
  spec.placement = Placement::dynamic;
  if (side.calls()) {
    auto slot = std::make_shared<Slot>(side.world.expose(spec));
    auto ready = std::make_shared<Slot>(
        side.world.expose({.name = side.named("ready"), .dtype = DType::u8, .shape = {1}}));
    while (!slot->ready() && ready->wait().ok()) {
    }
    return {.call = [slot, ready](Deadline deadline) { return said(slot->wait(deadline)); }};
  }
  auto remote = std::make_shared<RemoteSlot>(side.world.attach(0, spec));
  RemoteSlot told = side.world.attach(0, side.named("ready"));
  const Tensor tensor = side.world.allocate(spec.dtype, {kElements});
  auto put = std::make_shared<Request>(remote->put(tensor));
  (void)told.put(side.world.allocate(DType::u8, {1})).wait();
  return {.end = [remote, put] { (void)put->wait(Deadline::after(std::chrono::seconds(5))); }};
}

Case put_waits(Side& side, bool any, bool by_stream = false) {
  const SlotSpec spec = spec_of(side);
  if (!side.calls()) {
    auto slot = std::make_shared<Slot>(side.world.expose(spec));
    return {.part = [slot] { (void)slot->wait(Deadline::after(std::chrono::seconds(1))); }};
  }
  auto remote = std::make_shared<RemoteSlot>(side.world.attach(1, spec));
  const Tensor tensor = side.world.allocate(spec.dtype, spec.shape);
  (void)remote->put(tensor).wait();
  auto second = std::make_shared<Request>(remote->put(tensor));
  World* const world = &side.world;
  if (!any)
    return {.call = [remote, second, by_stream](Deadline deadline) {
      return said(by_stream ? second->wait_on(Stream(), deadline) : second->wait(deadline));
    }};
  return {.call = [world, remote, second](Deadline deadline) {
    const std::array<Request*, 1> all{second.get()};
    return said(world->wait_any(all, deadline));
  }};
}

Case owner_fills(Side& side) {
  const PublishedSpec spec = published_spec_of(side);
  if (side.calls()) {
    auto slot = std::make_shared<PublishedSlot>(side.world.expose_published(spec));
    auto seen = std::make_shared<Slot>(
        side.world.expose({.name = side.named("seen"), .dtype = DType::u8, .shape = {1}}));
    (void)slot->next();
    slot->publish().or_throw();
    seen->wait().status().or_throw();
    return {.call = [slot, seen](Deadline deadline) { return said(slot->next(deadline)); }};
  }
  auto remote = std::make_shared<PublishedReader>(side.world.attach_published(0, spec));
  auto view = std::make_shared<Arrival>(*remote->view());
  RemoteSlot told = side.world.attach(0, side.named("seen"));
  (void)told.put(side.world.allocate(DType::u8, {1})).wait();
  return {.end = [remote, view] { *view = Arrival(); }};
}

enum class Reads { view, view_of_runs, tensor, tensor_by_stream, runs, any };

/// Rank 0 reads rank 1's published slot. `published`: a version exists and is to be read.
Case reader_reads(Side& side, Reads how, bool published) {
  const PublishedSpec spec = published_spec_of(side);
  if (!side.calls()) {
    auto slot = std::make_shared<PublishedSlot>(side.world.expose_published(spec));
    auto publish = [slot] {
      if (slot->next(Deadline::after(std::chrono::seconds(1))).ok()) (void)slot->publish();
    };
    if (published) publish();
    return {.part = publish, .end = [slot] {}};
  }
  auto remote = std::make_shared<PublishedReader>(side.world.attach_published(1, spec));
  while (published && !remote->ready()) {
  }
  const Tensor into = side.world.allocate(spec.dtype, spec.shape);
  World* const world = &side.world;
  switch (how) {
    case Reads::view:
      return {.call = [remote](Deadline deadline) { return said(remote->view(deadline)); }};
    case Reads::view_of_runs:
      return {.call = [remote](Deadline deadline) {
        const std::array runs{SlotRun{0, 1, nullptr}, SlotRun{kElements / 2, 1, nullptr}};
        return said(remote->view(runs, deadline));
      }};
    case Reads::tensor:
      return {.call = [=](Deadline deadline) { return said(remote->get(into, deadline), into); }};
    case Reads::tensor_by_stream:
      return {.call = [=](Deadline deadline) {
        return said(remote->get(into, Stream(), deadline), into);
      }};
    case Reads::runs:
      return {.call = [=](Deadline deadline) {
        const std::array runs{SlotRun{0, kElements, into.data()}};
        return said(remote->get(runs, deadline), into);
      }};
    case Reads::any:
      break;
  }
  return {.call = [=](Deadline deadline) {
    const std::array<PublishedReader*, 1> all{remote.get()};
    return said(world->wait_any(all, deadline));
  }};
}

Case any_of_slots(Side& side) {
  const SlotSpec spec = spec_of(side);
  if (!side.calls()) return owner_waits(side, spec);
  auto slot = std::make_shared<Slot>(side.world.expose(spec));
  World* const world = &side.world;
  return {.call = [=](Deadline deadline) {
    const std::array<Slot*, 1> all{slot.get()};
    return said(world->wait_any(all, deadline));
  }};
}

Case any_of_a_set(Side& side) {
  const SlotSpec spec = spec_of(side);
  if (!side.calls()) return owner_waits(side, spec);
  auto slot = std::make_shared<Slot>(side.world.expose(spec));
  World* const world = &side.world;
  return {.call = [=](Deadline deadline) {
    const std::array<Slot*, 1> slots{slot.get()};
    return said(world->wait_any(WaitSet{.slots = slots}, deadline));
  }};
}

Case attaches(Side& side, bool by_name) {
  const SlotSpec spec = spec_of(side);
  if (!side.calls()) {
    auto slot = std::make_shared<Slot>();
    World* const world = &side.world;
    return {.part = [=] { *slot = world->expose(spec); }, .end = [slot] {}};
  }
  World* const world = &side.world;
  return {.call = [=](Deadline deadline) {
    return thrown([&] {
      RemoteSlot remote =
          by_name ? world->attach(1, spec.name, deadline) : world->attach(1, spec, deadline);
    });
  }};
}

Case attaches_as_reader(Side& side, bool by_name) {
  const PublishedSpec spec = published_spec_of(side);
  World* const world = &side.world;
  if (!side.calls()) {
    auto slot = std::make_shared<PublishedSlot>();
    return {.part = [=] { *slot = world->expose_published(spec); }, .end = [slot] {}};
  }
  return {.call = [=](Deadline deadline) {
    return thrown([&] {
      PublishedReader reader = by_name ? world->attach_published(1, spec.name, deadline)
                                       : world->attach_published(1, spec, deadline);
    });
  }};
}

}  // namespace

std::vector<Row> slot_rows() {
  return {
      {"Request::wait", [](Side& side) { return put_waits(side, false); }},
      {"Request::wait_on", [](Side& side) { return put_waits(side, false, true); }},
      {"Slot::wait", [](Side& side) { return owner_waits(side, spec_of(side)); }},
      {"Slot::wait", owner_reads, true, "announced"},
      {"Slot::wait_on", [](Side& side) { return owner_waits(side, spec_of(side), true); }},
      perhaps_alone({"PublishedSlot::next", owner_fills}),
      {"PublishedReader::view", [](Side& side) { return reader_reads(side, Reads::view, false); }},
      perhaps_alone({"PublishedReader::view",
                     [](Side& side) { return reader_reads(side, Reads::view, true); }, true,
                     "published"}),
      perhaps_alone({"PublishedReader::view#2",
                     [](Side& side) { return reader_reads(side, Reads::view_of_runs, true); }, true,
                     "published"}),
      perhaps_alone({"PublishedReader::get",
                     [](Side& side) { return reader_reads(side, Reads::tensor, true); }}),
      perhaps_alone({"PublishedReader::get#2",
                     [](Side& side) { return reader_reads(side, Reads::runs, true); }}),
      perhaps_alone({"PublishedReader::get#3",
                     [](Side& side) { return reader_reads(side, Reads::tensor_by_stream, true); }}),
      {"World::attach", [](Side& side) { return attaches(side, false); }},
      {"World::attach#2", [](Side& side) { return attaches(side, true); }},
      {"World::attach_published", [](Side& side) { return attaches_as_reader(side, false); }},
      {"World::attach_published#2", [](Side& side) { return attaches_as_reader(side, true); }},
      {"World::wait_any", any_of_slots},
      {"World::wait_any#2", [](Side& side) { return reader_reads(side, Reads::any, false); }},
      {"World::wait_any#3", [](Side& side) { return put_waits(side, true); }},
      {"World::wait_any#4", any_of_a_set},
  };
}

}  // namespace weft::tests
