// Rows for rendezvous and signals.
#include <array>

#include "tests/deadlines/row.hpp"

namespace weft::tests {
namespace {

constexpr auto kSoon = std::chrono::seconds(1);

using Exchange = std::shared_ptr<Rendezvous>;
using Exchanging = std::function<Said(const Exchange&, const Tensor&, Deadline)>;

Exchange open_exchange(Side& side) {
  return std::make_shared<Rendezvous>(
      Rendezvous::open(side.world, {.name = side.named("exchange")}));
}

/// Rank 0 makes `call`; rank 1's part is to send or to receive.
Case exchange(Side& side, const Exchanging& call, bool peer_sends) {
  const Exchange opened = open_exchange(side);
  const Tensor tensor = side.world.allocate(DType::u8, {1 << 20});
  if (side.calls())
    return {.call = [=](Deadline deadline) { return call(opened, tensor, deadline); }};
  return {.part = [=] {
    if (peer_sends)
      (void)opened->send(0, "key", 1, tensor, Deadline::after(kSoon));
    else
      (void)opened->recv(0, "key", 1, Deadline::after(kSoon));
  }};
}

class Bytes final : public Codec {
 public:
  std::uint16_t id() const override { return 7; }
  std::size_t size() const override { return 1024; }
  void encode(std::span<std::byte> to) const override {
    for (std::byte& byte : to) byte = std::byte{1};
  }
  void decode(std::span<const std::byte>) override {}
};

Case opens_exchange(Side& side, bool by_group) {
  World* const world = &side.world;
  const std::string name = side.named("exchange");
  const auto open_it = [=](Deadline deadline) {
    return thrown([&] {
      Rendezvous opened = by_group
                              ? Rendezvous::open(*world, world->group(), {.name = name}, deadline)
                              : Rendezvous::open(*world, {.name = name}, deadline);
    });
  };
  if (side.calls()) return {.call = open_it};
  return {.part = [=] { (void)open_it(Deadline::after(std::chrono::milliseconds(200))); }};
}

Case waits_for_signal(Side& side) {
  const std::string name = side.named("signal");
  if (side.calls()) {
    auto signal = std::make_shared<Signal>(Signal::expose(side.world, name));
    return {
        .call = [signal](Deadline deadline) { return said(signal->wait_at_least(7, deadline)); }};
  }
  auto remote = std::make_shared<RemoteSignal>(RemoteSignal::attach(side.world, 0, name));
  return {.part = [remote] { (void)remote->add(1); }, .end = [remote] {}};
}

Case attaches_signal(Side& side) {
  World* const world = &side.world;
  const std::string name = side.named("signal");
  if (side.calls())
    return {.call = [=](Deadline deadline) {
      return thrown([&] { RemoteSignal remote = RemoteSignal::attach(*world, 1, name, deadline); });
    }};
  auto signal = std::make_shared<Signal>();
  return {.part = [=] { *signal = Signal::expose(*world, name); }, .end = [signal] {}};
}

template <typename Act>
Case changes_signal(Side& side, const Act& act) {
  const std::string name = side.named("signal");
  const SlotSpec spec{.name = side.named("slot"), .dtype = DType::u8, .shape = {1 << 20}};
  if (!side.calls()) {
    auto signal = std::make_shared<Signal>(Signal::expose(side.world, name));
    auto slot = std::make_shared<Slot>(side.world.expose(spec));
    return {.part = [signal] { (void)signal->fetch_add(1); }, .end = [signal, slot] {}};
  }
  auto remote = std::make_shared<RemoteSignal>(RemoteSignal::attach(side.world, 1, name));
  auto slot = std::make_shared<RemoteSlot>(side.world.attach(1, spec));
  const Tensor tensor = side.world.allocate(spec.dtype, spec.shape);
  return {.call = [=](Deadline deadline) { return act(*remote, *slot, tensor, deadline); }};
}

}  // namespace

std::vector<Row> exchange_rows() {
  const auto row = [](const Exchanging& call, bool peer_sends) {
    return [=](Side& side) { return exchange(side, call, peer_sends); };
  };
  return {
      {"Rendezvous::open", [](Side& side) { return opens_exchange(side, false); }},
      {"Rendezvous::open#2", [](Side& side) { return opens_exchange(side, true); }},
      perhaps_alone(
          {"Rendezvous::send", row([](const Exchange& e, const Tensor& t,
                                      Deadline d) { return said(e->send(1, "key", 1, t, d)); },
                                   false)}),
      perhaps_alone({"Rendezvous::send_dead",
                     row([](const Exchange& e, const Tensor&,
                            Deadline d) { return said(e->send_dead(1, "key", 1, d)); },
                         false)}),
      perhaps_alone({"Rendezvous::send_error",
                     row(
                         [](const Exchange& e, const Tensor&, Deadline d) {
                           return said(e->send_error(1, "key", 1, Code::cancelled, "no", d));
                         },
                         false)}),
      perhaps_alone({"Rendezvous::send_encoded",
                     row([](const Exchange& e, const Tensor&,
                            Deadline d) { return said(e->send_encoded(1, "key", 1, Bytes(), d)); },
                         false)}),
      {"Rendezvous::serve", row(
                                [](const Exchange& e, const Tensor& t, Deadline d) {
                                  (void)e->send(1, "key", 1, t, d);
                                  return said(e->serve(d));
                                },
                                false)},
      {"Rendezvous::recv", row([](const Exchange& e, const Tensor&,
                                  Deadline d) { return said(e->recv(1, "key", 1, d)); },
                               true)},
      {"Rendezvous::recv#2", row(
                                 [](const Exchange& e, const Tensor&, Deadline d) {
                                   const std::array wanted{KeyStep{"key", 1}, KeyStep{"key", 2}};
                                   return said(e->recv(1, wanted, d).back());
                                 },
                                 true)},
      {"Signal::wait_at_least", waits_for_signal},
      {"RemoteSignal::attach", attaches_signal},
      perhaps_alone({"RemoteSignal::fetch_add",
                     [](Side& side) {
                       return changes_signal(
                           side, [](RemoteSignal& s, RemoteSlot&, const Tensor&, Deadline d) {
                             return said(s.fetch_add(1, d));
                           });
                     }}),
      perhaps_alone({"RemoteSignal::compare_swap",
                     [](Side& side) {
                       return changes_signal(
                           side, [](RemoteSignal& s, RemoteSlot&, const Tensor&, Deadline d) {
                             return said(s.compare_swap(0, 1, d));
                           });
                     }}),
      {"RemoteSignal::put",
       [](Side& side) {
         return changes_signal(side,
                               [](RemoteSignal& s, RemoteSlot& slot, const Tensor& t, Deadline d) {
                                 (void)s.put(slot, t, 1, d);
                                 return said(s.put(slot, t, 1, d));
                               });
       }},
  };
}

}  // namespace weft::tests
