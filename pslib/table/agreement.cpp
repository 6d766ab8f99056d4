#include "pslib/table/agreement.hpp"

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

}  // namespace

Agreement::Agreement(World& world, std::span<const int> members, const std::string& name,
                     const std::string& contract, Deadline deadline)
    : members_(members.begin(), members.end()),
      place_(
          static_cast<std::size_t>(std::ranges::find(members_, world.rank()) - members_.begin())),
      contract_(contract) {
  PublishedSpec spec;
  spec.name = name;
  spec.dtype = DType::u8;
  spec.shape = Shape{static_cast<std::int64_t>(contract.size() + sizeof(Said))};
  spec.depth = 2;  // publishing a second version waits for no reader
  mine_ = world.expose_published(spec);
  publish(deadline);

  std::optional<ErrorDetail> mismatch;
  for (const int peer : members) {
    if (peer == world.rank()) continue;
    PublishedReader& other = others_.emplace_back(world.attach_published(peer, name, deadline));
    const Arrival arrival = other.view(deadline).value();
    const auto bytes = arrival.as<std::uint8_t>();
    const std::size_t said = bytes.size() - std::min(bytes.size(), sizeof(Said));
    const std::string_view theirs(reinterpret_cast<const char*>(bytes.data()), said);
    // The peer may be a round ahead already: it has read all contracts, while this rank has not.
    std::memcpy(&heard_.emplace_back(), bytes.data() + said, bytes.size() - said);
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

  // Every rank sees the mismatch, but at different times: a rank that threw at once would withdraw
  // its contract before the others had read it. The second version says "I have read all
  // contracts".
  part(deadline);
  throw Error(std::move(*mismatch));
}

void Agreement::publish(Deadline deadline) {
  const Tensor buffer = mine_.next(deadline).value();
  std::memcpy(buffer.data(), contract_.data(), contract_.size());
  std::memcpy(buffer.data() + contract_.size(), &said_, sizeof said_);
  mine_.publish().or_throw();
}

std::vector<Agreement::Word> Agreement::exchange(const Word& mine, Deadline deadline) {
  said_ = {said_.round + 1, mine, said_.now};
  publish(deadline);
  std::vector<Word> all;
  for (std::size_t i = 0; i < others_.size(); ++i) {
    Said& other = heard_[i];
    while (other.round < said_.round) {
      const Arrival arrival = others_[i].view(deadline).value();
      std::memcpy(&other, arrival.as<std::uint8_t>().data() + contract_.size(), sizeof other);
    }
    all.push_back(other.round == said_.round ? other.now : other.before);
  }
  all.insert(all.begin() + static_cast<std::ptrdiff_t>(place_), mine);
  return all;
}

void Agreement::part(Deadline deadline) noexcept {
  try {
    said_ = {said_.round + 1, said_.now, said_.now};
    publish(deadline);
    for (std::size_t i = 0; i < others_.size(); ++i)
      if (heard_[i].round < said_.round && !others_[i].view(deadline))
        return;  // a peer that is gone had read all contracts
  } catch (const std::exception&) {
    return;  // the caller throws the error that matters
  }
}

}  // namespace weft::pslib
