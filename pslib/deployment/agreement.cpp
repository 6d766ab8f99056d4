#include "pslib/deployment/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

namespace weft::pslib {
namespace {

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::string difference(std::string_view here, std::string_view there, int peer) {
  while (!here.empty() || !there.empty()) {
    const std::string_view a = take_line(here);
    const std::string_view b = take_line(there);
    const auto shown = [](std::string_view line) { return line.empty() ? "nothing" : line; };
    if (a != b) return fmt::format("here: {}; on rank {}: {}", shown(a), peer, shown(b));
  }
  return "no difference";
}

void publish(Slot& slot, std::string_view text, Deadline deadline) {
  const Tensor buffer = slot.next(deadline).value();
  std::memcpy(buffer.data(), text.data(), text.size());
  slot.publish().or_throw();
}

}  // namespace

Agreement::Agreement(World& world, const std::string& name, const std::string& contract,
                     Deadline deadline) {
  SlotSpec spec;
  spec.name = name;
  spec.dtype = DType::u8;
  spec.shape = Shape{static_cast<std::int64_t>(contract.size())};
  spec.depth = 2;  // so that the second version below waits for nobody
  spec.writer = Writer::owner;
  mine_ = world.expose(spec);
  publish(mine_, contract, deadline);

  std::optional<ErrorDetail> mismatch;
  for (int peer = 0; peer < world.size(); ++peer) {
    if (peer == world.rank()) continue;
    RemoteSlot& other = others_.emplace_back(world.attach(peer, name, deadline));
    const Arrival arrival = other.view(deadline).value();
    const auto bytes = arrival.as<std::uint8_t>();
    const std::string_view theirs(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (theirs == contract || mismatch) continue;
    mismatch.emplace();
    mismatch->code = Code::mismatch;
    mismatch->operation = "table";
    mismatch->message = difference(contract, theirs, peer);
    mismatch->hint = "create the table with the same arguments on every rank";
    mismatch->rank = world.rank();
    mismatch->peer = peer;
    mismatch->slot = name;
  }
  if (!mismatch) return;

  // Everybody sees the mismatch, but not at the same time: a rank that gave up at once would take
  // its contract away before the others have read it. The second version says "I have read all".
  publish(mine_, contract, deadline);
  for (RemoteSlot& other : others_) {
    const auto seen = other.view(deadline);
    if (!seen) break;  // it has gone, so it had read all; the mismatch is what matters
  }
  throw Error(std::move(*mismatch));
}

}  // namespace weft::pslib
