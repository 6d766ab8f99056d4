// Calls after leave() end with the caller's own leave as the reason: no peer is blamed.
#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "tests/support/ranks.hpp"
#include "weft/collective.hpp"
#include "weft/message.hpp"
#include "weft/rendezvous.hpp"

namespace weft::tests {
namespace {

TEST(AfterLeave, CallsTellTheCallerThatItHasLeft) {
  for (const char* fabric : {"shm", "tcp"}) {
    run_on(2, settings().with(Setting::fabric, fabric), [](World& world) {
      const SlotSpec spec{.name = "in", .shape = {4}};
      const PublishedSpec news{.name = "news", .shape = {4}};
      const int other = 1 - world.rank();
      Slot slot = world.expose(spec);
      PublishedSlot published = world.expose_published(news);
      RemoteSlot remote = world.attach(other, spec);
      PublishedReader reader = world.attach_published(other, news);
      Messages messages(world);
      Rendezvous rendezvous = Rendezvous::open(world);
      Collectives group = Collectives::open(world);
      const Group all = world.group();
      const Tensor tensor = world.allocate(DType::f32, {4});
      world.leave().or_throw();
      const Deadline soon = Deadline::after(std::chrono::seconds(5));
      const std::vector<std::pair<const char*, std::function<Status()>>> calls{
          {"Slot::wait", [&] { return slot.wait(soon).status(); }},
          {"RemoteSlot::put", [&] { return remote.put(tensor).wait(soon); }},
          {"PublishedReader::view", [&] { return reader.view(soon).status(); }},
          {"Messages::send", [&] { return messages.send(other, 1, tensor, soon); }},
          {"Messages::recv", [&] { return messages.recv(other, 1, tensor, soon).status(); }},
          {"Messages::recv any",
           [&] { return messages.recv(kAnySource, kAnyTag, tensor, soon).status(); }},
          {"Rendezvous::recv", [&] { return rendezvous.recv(other, "k", 1, soon).status(); }},
          {"Rendezvous::send", [&] { return rendezvous.send(other, "k", 1, tensor, soon); }},
          {"Collectives::run", [&] { return group.run(barrier(), soon); }},
          {"Group::split", [&] { return all.split(0, 0, soon).status(); }},
          {"World::alive", [&] { return world.alive(std::vector{other}); }}};
      for (const auto& [name, call] : calls) {
        const Status status = call();
        EXPECT_EQ(status.code(), Code::closed) << name << ": " << status.text();
        EXPECT_TRUE(contains(status.text(), "this rank ")) << name << ": " << status.text();
      }
      const ErrorDetail attach = thrown_by([&] { (void)world.attach(other, "new", soon); });
      EXPECT_EQ(attach.code, Code::closed) << attach.text();
    });
  }
}

}  // namespace
}  // namespace weft::tests
