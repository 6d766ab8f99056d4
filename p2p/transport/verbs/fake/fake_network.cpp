#include "p2p/transport/verbs/fake/fake_network.hpp"

#include <utility>

#include "p2p/transport/verbs/fake/fake_verbs.hpp"

namespace weft::p2p::verbs::fake {
namespace {

ibv_async_event port_event(ibv_event_type type, std::uint8_t port) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.port_num = port;
  return event;
}

// Each NIC of the rank, under the engine's lock; then whatever has become possible.
template <typename Act>
void with_nics(Engine& engine, int rank, const Act& act) {
  const auto lock = engine.lock();
  for (const auto& nic : engine.nics())
    if (nic->rank == rank) act(*nic);
  engine.look_at_all();
  engine.run();
}

}  // namespace

FakeNetwork::FakeNetwork(const NetworkOptions& options)
    : engine_(std::make_shared<Engine>(options)) {}

std::shared_ptr<Verbs> FakeNetwork::devices(int rank, std::vector<NicSpec> specs) {
  const auto lock = engine_->lock();
  std::vector<FakeNic*> nics;
  nics.reserve(specs.size());
  for (NicSpec& spec : specs) nics.push_back(&engine_->add_nic(rank, std::move(spec)));
  return std::make_shared<FakeVerbs>(engine_, std::move(nics));
}

std::shared_ptr<Verbs> FakeNetwork::device(int rank, NicSpec spec) {
  return devices(rank, {std::move(spec)});
}

std::shared_ptr<Verbs> FakeNetwork::device(int rank, const FaultPlan& faults) {
  return devices(rank, {NicSpec{.faults = faults}});
}

void FakeNetwork::set_faults(int rank, const FaultPlan& faults) {
  with_nics(*engine_, rank, [&](FakeNic& nic) { nic.spec.faults = faults; });
}

void FakeNetwork::set_port(int rank, bool up, std::uint8_t port) {
  with_nics(*engine_, rank, [&](FakeNic& nic) {
    if (port > nic.ports.size() || std::exchange(nic.ports[port - 1U].spec.up, up) == up) return;
    Engine::raise(nic, port_event(up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, port));
  });
}

void FakeNetwork::isolate(int rank, bool isolated) {
  with_nics(*engine_, rank, [&](FakeNic& nic) { nic.isolated = isolated; });
}

void FakeNetwork::set_nic_port(int rank, const std::string& name, bool up) {
  with_nics(*engine_, rank, [&](FakeNic& nic) {
    if (nic.spec.name != name || std::exchange(nic.ports.front().spec.up, up) == up) return;
    Engine::raise(nic, port_event(up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, 1));
  });
}

void FakeNetwork::isolate_nic(int rank, const std::string& name, bool isolated) {
  with_nics(*engine_, rank, [&](FakeNic& nic) {
    if (nic.spec.name == name) nic.isolated = isolated;
  });
}

void FakeNetwork::hold(int rank, bool held) {
  with_nics(*engine_, rank, [&](FakeNic& nic) { nic.held = held; });
}

void FakeNetwork::fail(int rank) {
  with_nics(*engine_, rank, [&](FakeNic& nic) {
    if (std::exchange(nic.dead, true)) return;
    Engine::raise(nic, port_event(IBV_EVENT_DEVICE_FATAL, 0));
    for (const auto& [number, qp] : nic.queue_pairs) engine_->fail(*qp);
  });
}

void FakeNetwork::announce(int rank, ibv_event_type type, std::uint8_t port) {
  with_nics(*engine_, rank, [&](FakeNic& nic) { Engine::raise(nic, port_event(type, port)); });
}

void FakeNetwork::tamper(std::function<void(int, std::span<std::byte>)> change) {
  const auto lock = engine_->lock();
  engine_->tamper(std::move(change));
}

NicCounts FakeNetwork::counts(int rank) const {
  const auto lock = engine_->lock();
  NicCounts sum;
  for (const auto& nic : engine_->nics())
    if (nic->rank == rank) sum += nic->counts;
  return sum;
}

NicCounts FakeNetwork::counts(int rank, const std::string& name) const {
  const auto lock = engine_->lock();
  NicCounts sum;
  for (const auto& nic : engine_->nics())
    if (nic->rank == rank && nic->spec.name == name) sum += nic->counts;
  return sum;
}

std::string FakeNetwork::complaints() const {
  const auto lock = engine_->lock();
  return engine_->complaints();
}

std::string FakeNetwork::left_behind() const {
  const auto lock = engine_->lock();
  std::string text;
  const FakeCmExchange& exchange = engine_->exchange();
  if (exchange.ids + exchange.channels > 0)
    text += std::to_string(exchange.ids) + " ids and " + std::to_string(exchange.channels) +
            " channels of connection managers\n";
  for (const auto& nic : engine_->nics()) {
    const auto name = [&](std::size_t count, const char* what) {
      if (count > 0)
        text +=
            "rank " + std::to_string(nic->rank) + ": " + std::to_string(count) + " " + what + "\n";
    };
    name(nic->contexts.size(), "open devices");
    name(nic->domains.size(), "protection domains");
    name(nic->regions.size(), "memory regions");
    name(nic->channels.size(), "completion channels");
    name(nic->rings.size(), "completion queues");
    name(nic->queue_pairs.size(), "queue pairs");
  }
  return text;
}

}  // namespace weft::p2p::verbs::fake
