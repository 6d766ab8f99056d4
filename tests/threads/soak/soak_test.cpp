// Objects that are made and released over and over leave no memory, descriptor or thread behind:
// after `count` operations, `count` more take no further memory. With --full a million of each
// kind.
#include "tests/threads/soak/soak.hpp"
#include "weft/message.hpp"
#include "weft/rendezvous.hpp"

namespace weft::tests {
namespace {

TEST(Soak, KeysOfOneStepEach) {
  constexpr int kKeys = 64;  // of an operation
  soak(count_of(seeds(1000 * kKeys)) / kKeys, [](World& world, Meeting&) -> Operation {
    auto rendezvous = std::make_shared<Rendezvous>(Rendezvous::open(world, {.name = "soak"}));
    const Tensor tensor = world.allocate(DType::f32, {4});
    return [rendezvous, tensor](World& at, int number) {
      std::vector<std::string> keys;
      for (int i = 0; i < kKeys; ++i)
        keys.push_back("weight/step " + std::to_string(number * kKeys + i));
      if (at.rank() == 0) {
        for (const std::string& key : keys) rendezvous->send(1, key, 1, tensor).or_throw();
        return;
      }
      std::vector<KeyStep> wanted;
      for (const std::string& key : keys) wanted.push_back({key, 1});
      for (const auto& received : rendezvous->recv(0, wanted)) received.status().or_throw();
    };
  });
}

TEST(Soak, SubsetsMadeAnew) {
  soak(count_of(seeds(300'000)), [](World&, Meeting&) -> Operation {
    return [](World& at, int number) {
      const Group subset = at.group().subset(number % 2 == 0 ? std::vector{1, 0} : std::vector{1});
      EXPECT_EQ(subset.members().front(), 1);
    };
  });
}

TEST(Soak, GroupsShrunkTimeAfterTime) {
  soak(count_of(seeds(4000)), [](World& world, Meeting& meeting) -> Operation {
    auto group = std::make_shared<Group>(world.group());
    return [group, &meeting](World&, int number) {
      *group = group->shrink().value();
      // A rank that is hundreds of groups behind is refused, and a busy machine may hold up one
      // rank.
      if (number % 100 == 99) meeting.wait();
    };
  });
}

TEST(Soak, SlotsAndAttachments) {
  soak(count_of(seeds(1000)), [](World&, Meeting& meeting) -> Operation {
    return [&meeting](World& at, int number) {
      const SlotSpec spec{
          .name = "soak " + std::to_string(number), .dtype = DType::u8, .shape = {100}};
      if (at.rank() == 0) {
        Slot slot = at.expose(spec);
        meeting.wait();
      } else {
        const RemoteSlot remote = at.attach(0, spec);
        meeting.wait();
      }
      meeting.wait();
    };
  });
}

TEST(Soak, MessagesWhoseRequestsAreLetGo) {
  soak(count_of(seeds(20'000)), [](World& world, Meeting&) -> Operation {
    const Tensor tensor = world.allocate(DType::f32, {4});
    return [tensor](World& at, int number) {
      Messages messages(at);
      const int other = 1 - at.rank();
      const auto tag = static_cast<std::uint64_t>(number % 100);
      { const MessageRequest sent = messages.isend(other, tag, tensor); }
      { const MessageRequest unmatched = messages.irecv(other, 5000 + tag, tensor); }
      messages.recv(other, tag, tensor).status().or_throw();
      messages.sendrecv(other, 1000, tensor, other, 1000, tensor).status().or_throw();
    };
  });
}

}  // namespace
}  // namespace weft::tests
