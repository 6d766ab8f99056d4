// Fuzzes control messages of slots and of a rendezvous.
#include "p2p/rendezvous/wire.hpp"
#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/transport/shm/shm_messages.hpp"
#include "tests/fuzz/input.hpp"

using namespace weft;
using namespace weft::p2p;
using weft::fuzz::Input;
using weft::fuzz::require;

namespace {

void read_contract(const SpecOnWire& wire) {
  const auto spec = from_wire(wire);
  if (!spec) return;
  require(spec->name.size() <= kMaxSlotName && spec->depth <= kMaxDepth);
  (void)describe(*spec);
  (void)payload_bytes(*spec);
  const auto again = from_wire(to_wire(*spec));
  require(again && again->name == spec->name && again->shape == spec->shape);
}

void read_slot_message(std::span<const std::byte> bytes) {
  if (const auto attach = parse<AttachMessage>(bytes)) read_contract(attach->spec);
  if (const auto attached = parse<AttachedMessage>(bytes)) read_contract(attached->spec);
  if (const auto refused = parse<RefusedMessage>(bytes))
    require(refused->text.get().size() <= 1024);
}

void read_rendezvous_message(std::span<const std::byte> bytes) {
  using namespace rendezvous;
  MessageReader reader(bytes);
  if (!reader.valid()) return;
  const auto all = [&](const auto& next) {
    std::size_t count = 0;
    while (next()) require(++count <= bytes.size());
  };
  switch (reader.type()) {
    case RendezvousMessage::hello:
      return all([&] { return reader.hello().has_value(); });
    case RendezvousMessage::tensor_request:
      return all([&] {
        const auto ask = reader.ask();
        if (ask) require(ask->name.size() <= kMaxKey);
        return ask.has_value();
      });
    case RendezvousMessage::meta_data_response:
      return all([&] { return reader.metadata().has_value(); });
    case RendezvousMessage::tensor_re_request:
      return all([&] { return reader.ask_again().has_value(); });
    case RendezvousMessage::error_status:
      return all([&] {
        const auto error = reader.error();
        if (error) require(error->text.size() <= kMaxErrorText);
        return error.has_value();
      });
    case RendezvousMessage::cancel:
      return all([&] { return reader.cancel().has_value(); });
    default:
      return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  switch (input.take<std::uint8_t>() % 3) {
    case 0:
      read_contract(input.take<SpecOnWire>());
      break;
    case 1:
      read_slot_message(input.rest());
      break;
    default:
      read_rendezvous_message(input.rest());
  }
  return 0;
}
