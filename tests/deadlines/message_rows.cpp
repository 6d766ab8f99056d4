// Rows for messages: those that no rank sends, those that no rank receives, and those that are read
// from their sender's memory.
#include <array>

#include "tests/deadlines/row.hpp"

namespace weft::tests {
namespace {

constexpr std::int64_t kSmall = 64;
constexpr std::int64_t kLarge = 1 << 22;  ///< is announced, and read

std::uint64_t tag_of(const Side& side) { return std::stoull(side.unique); }
Tensor bytes_of(World& world, std::int64_t count) { return world.allocate(DType::u8, {count}); }

/// Rank 1's part is to send.
Case sender(Side& side, std::int64_t bytes) {
  World* const world = &side.world;
  const std::uint64_t tag = tag_of(side);
  const Tensor tensor = bytes_of(*world, bytes);
  return {.part = [=] {
    (void)Messages(*world).send(0, tag, tensor, Deadline::after(std::chrono::seconds(1)));
  }};
}

/// Rank 1 has announced a large tensor and stops; rank 0 has seen the announcement.
Case announcer(Side& side, std::shared_ptr<MessageRequest> request) {
  World* const world = &side.world;
  *request = Messages(*world).isend(0, tag_of(side), bytes_of(*world, kLarge));
  // The announcement stays in this request until the ring exists.
  (void)request->wait(Deadline::after(std::chrono::milliseconds(100)));
  return {.end = [request] { (void)request->wait(Deadline::after(std::chrono::seconds(5))); }};
}

template <typename Act>
Case receives(Side& side, std::int64_t bytes, const Act& act) {
  if (!side.calls()) return sender(side, bytes);
  const Tensor into = bytes_of(side.world, bytes);
  World* const world = &side.world;
  const std::uint64_t tag = tag_of(side);
  return {.call = [=](Deadline deadline) { return act(Messages(*world), tag, into, deadline); }};
}

template <typename Act>
Case reads(Side& side, const Act& act) {
  if (!side.calls()) return announcer(side, std::make_shared<MessageRequest>());
  const Tensor into = bytes_of(side.world, kLarge);
  World* const world = &side.world;
  const std::uint64_t tag = tag_of(side);
  (void)Messages(*world).probe(1, tag);
  auto is_late = std::make_shared<bool>(false);
  return {.call =
              [=](Deadline deadline) {
                Said said = act(Messages(*world), tag, into, deadline);
                *is_late = !said.status.ok();
                return said;
              },
          // Receives a message that was late, unless the call has left a request that receives the
          // message.
          .end =
              [=] {
                if (!*is_late) return;
                const Deadline soon = Deadline::after(std::chrono::milliseconds(300));
                (void)Messages(*world).recv(1, tag, into, soon);
              }};
}

/// A slot that is unrelated to the message under way.
Case unrelated(Side& side) {
  const SlotSpec spec{.name = side.named("unrelated"), .dtype = DType::u8, .shape = {8}};
  if (!side.calls()) {
    Case announced = announcer(side, std::make_shared<MessageRequest>());
    return announced;
  }
  const Tensor into = bytes_of(side.world, kLarge);
  (void)Messages(side.world).probe(1, tag_of(side));
  auto request = std::make_shared<MessageRequest>();
  auto slot = std::make_shared<Slot>(side.world.expose(spec));
  World* const world = &side.world;
  const std::uint64_t tag = tag_of(side);
  return {.call =
              [=](Deadline deadline) {
                *request = Messages(*world).irecv(1, tag, into);
                for (int i = 0; i < 100; ++i) (void)request->test();
                return said(slot->wait(deadline));
              },
          .end = [request] { (void)request->wait(Deadline::after(std::chrono::seconds(5))); }};
}

Case sends(Side& side) {
  World* const world = &side.world;
  const std::uint64_t tag = tag_of(side);
  const Tensor tensor = bytes_of(*world, kLarge);
  if (side.calls())
    return {.call = [=](Deadline deadline) {
      return said(Messages(*world).send(1, tag, tensor, deadline));
    }};
  const auto take = [=] {
    (void)Messages(*world).recv(0, tag, tensor, Deadline::after(std::chrono::milliseconds(500)));
  };
  return {.part = take, .end = take};
}

using Deadlined = Said (*)(Messages, std::uint64_t, const Tensor&, Deadline);

const Deadlined kRecv = [](Messages messages, std::uint64_t tag, const Tensor& into,
                           Deadline deadline) {
  return said(messages.recv(1, tag, into, deadline), into);
};
const Deadlined kWait = [](Messages messages, std::uint64_t tag, const Tensor& into,
                           Deadline deadline) {
  MessageRequest request = messages.irecv(1, tag, into);
  return said(request.wait(deadline));
};
const Deadlined kAll = [](Messages messages, std::uint64_t tag, const Tensor& into,
                          Deadline deadline) {
  std::array requests{messages.irecv(1, tag, into), messages.irecv(1, tag + 1, into)};
  return said(messages.wait_all(requests, deadline));
};
const Deadlined kAny = [](Messages messages, std::uint64_t tag, const Tensor& into,
                          Deadline deadline) {
  std::array requests{messages.irecv(1, tag, into)};
  return said(messages.wait_any(requests, deadline));
};
const Deadlined kProbe = [](Messages messages, std::uint64_t tag, const Tensor&,
                            Deadline deadline) { return said(messages.probe(1, tag, deadline)); };
const Deadlined kBoth = [](Messages messages, std::uint64_t tag, const Tensor& into,
                           Deadline deadline) {
  const Tensor small = Tensor::wrap(into.data(), DType::u8, {8});
  return said(messages.sendrecv(1, tag + 1, small, 1, tag, into, deadline));
};

}  // namespace

std::vector<Row> message_rows() {
  const auto small = [](Deadlined act) {
    return [act](Side& side) { return receives(side, kSmall, act); };
  };
  const auto large = [](Deadlined act) { return [act](Side& side) { return reads(side, act); }; };
  return {
      {"MessageRequest::wait", small(kWait)},
      perhaps_alone({"MessageRequest::wait", large(kWait), true, "announced"}),
      {"Messages::send", sends},
      {"Messages::recv", small(kRecv)},
      perhaps_alone({"Messages::recv", large(kRecv), true, "announced"}),
      {"Messages::sendrecv", small(kBoth)},
      {"Messages::probe", small(kProbe)},
      {"Messages::wait_all", small(kAll)},
      {"Messages::wait_any", small(kAny)},
      {"Slot::wait", unrelated, false, "beside a message"},
  };
}

}  // namespace weft::tests
