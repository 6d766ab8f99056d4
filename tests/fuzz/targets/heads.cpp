// Fuzzes heads in memory that another rank can write: of messages in a ring, of dynamic tensors, of
// grants.
#include "p2p/memory/copy_once.hpp"
#include "p2p/message/ring.hpp"
#include "p2p/slot/attach/grant.hpp"
#include "p2p/slot/attach/slot_line.hpp"
#include "tests/fuzz/input.hpp"

using namespace weft;
using namespace weft::p2p;
using weft::fuzz::Input;
using weft::fuzz::require;

namespace {

void read_ring(Input& input) {
  using namespace message;
  const auto sequence = input.take<std::uint64_t>();
  const auto place = input.take<std::uint8_t>() % 2 == 0 ? Place::cell : Place::long_buffer;
  const auto head = input.take<Head>();
  if (fault_of(head, sequence, place) != nullptr) return;
  require(head.sequence == sequence);
  if (head.kind() == Kind::offered) {
    const auto offer = input.take<Offer>();
    require(fault_of(offer) != nullptr || offer.ack < SenderWords::kOffers);
    return;
  }
  require(head.bytes() <= (place == Place::cell ? Cell::kPayload : Geometry::kLongPayload));
  const auto geometry = input.take<Geometry>();
  if (!geometry.makes_sense()) return;
  require(geometry.bytes() / sizeof(Cell) >= geometry.cells);
}

void read_record(Input& input) {
  const std::size_t dims = input.take<std::uint8_t>() % (Shape::kMaxDims + 1);
  const int ranks = 1 + input.take<std::uint8_t>() % 8;
  const auto record = input.take<DynamicRecord>();
  const auto shape = shape_of(record, dims, ranks);
  if (!shape) return;
  require(record.rank >= 0 && record.rank < ranks && shape->dims() == dims);
  require(shape->elements() >= 0);
  std::size_t bytes = 0;
  require(
      !__builtin_mul_overflow(static_cast<std::size_t>(shape->elements()), std::size_t{8}, &bytes));
}

void read_contracts(Input& input) {
  const auto one = from_wire(input.take<SpecOnWire>());
  const auto other = from_wire(input.take<SpecOnWire>());
  if (!one || !other || !same_contract(*one, *other)) return;
  require(payload_bytes(*one) == payload_bytes(*other));
}

void read_grant(Input& input) {
  const auto most = input.take<std::uint64_t>();
  const auto grant = input.take<AttachedMessage>();
  const auto spec = from_wire(grant.spec);
  if (!spec || !makes_sense(grant, *spec)) return;
  const std::size_t bytes = payload_bytes(*spec);
  const auto holds = [&](std::uint64_t stride, std::uint64_t all) {
    std::uint64_t end = 0;
    require(!__builtin_mul_overflow(stride, std::uint64_t{spec->depth}, &end));
    require(stride >= bytes && end <= all);
  };
  if (grant.stride != 0)
    holds(grant.stride, grant.buffers.bytes);
  else
    require(bytes <= SlotLine::kInlineBytes);
  if (tails_make_sense(grant, *spec, most)) holds(grant.tail_stride, grant.tails.bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  switch (input.take<std::uint8_t>() % 4) {
    case 0:
      read_ring(input);
      break;
    case 1:
      read_record(input);
      break;
    case 2:
      read_grant(input);
      break;
    default:
      read_contracts(input);
  }
  return 0;
}
