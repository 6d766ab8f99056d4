#include "pslib/table/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/mix64.hpp"

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

/// Equal for equal contracts, and for others hardly ever.
AgreementWord digest_of(std::string_view contract) noexcept {
  AgreementWord digest{fnv1a(kFnv1a, contract.size()), fnv1a(kGolden64, contract.size())};
  for (const char c : contract) {
    const auto byte = static_cast<unsigned char>(c);
    digest = {fnv1a(digest[0], byte), mix64(fnv1a(digest[1], byte))};
  }
  return digest;
}

}  // namespace

void AgreementRange::merge(const AgreementRange& other) noexcept {
  if (std::tie(other.least, other.least_place) < std::tie(least, least_place)) {
    least = other.least;
    least_place = other.least_place;
  }
  if (other.most > most || (other.most == most && other.most_place < most_place)) {
    most = other.most;
    most_place = other.most_place;
  }
}

Agreement::Agreement(World& world, std::span<const int> members, const std::string& name,
                     const std::string& contract, Deadline deadline, std::span<const int> watched)
    : members_(members.begin(), members.end()),
      place_(
          static_cast<std::size_t>(std::ranges::find(members_, world.rank()) - members_.begin())),
      contract_(contract) {
  PublishedSpec spec;
  spec.name = name;
  spec.dtype = DType::u8;
  spec.shape = Shape{static_cast<std::int64_t>(sizeof(Said) + contract.size())};
  spec.depth = 2;  // publishing a second version waits for no reader
  mine_ = world.expose_published(spec);
  publish(deadline);
  const std::size_t size = members_.size();
  for (std::size_t distance = 1; distance < size; distance *= 2) {
    const int peer = members_[(place_ + size - distance) % size];
    heard_.push_back({world.attach_published(peer, name, deadline), {}});
  }
  for (const int peer : watched)
    if (peer != world.rank()) watched_.push_back(world.attach_published(peer, name, deadline));
  const Word digest = digest_of(contract);
  const Range all = exchange(digest, deadline);
  if (all.least == all.most) return;
  const std::uint64_t other = all.least == digest ? all.most_place : all.least_place;
  differ(world, members_[other % size], name, deadline);
}

void Agreement::differ(World& world, int peer, const std::string& name, Deadline deadline) {
  PublishedReader reader = world.attach_published(peer, name, deadline);
  std::string theirs;
  {
    const Arrival arrival = reader.view(deadline).value();
    const auto bytes = arrival.as<std::uint8_t>();
    const std::size_t said = std::min(bytes.size(), sizeof(Said));
    theirs.assign(reinterpret_cast<const char*>(bytes.data()) + said, bytes.size() - said);
  }
  ErrorDetail mismatch;
  mismatch.code = Code::mismatch;
  mismatch.operation = "table";
  mismatch.message = difference(contract_, theirs, peer);
  mismatch.hint = "give the same arguments on every rank";
  mismatch.rank = world.rank();
  mismatch.peer = peer;
  mismatch.slot = name;
  // Every rank sees the mismatch, but at different times: a rank that threw at once would withdraw
  // its contract before the others had read it.
  part(deadline);
  throw Error(std::move(mismatch));
}

void Agreement::publish(Deadline deadline) {
  const Tensor buffer = mine_.next(deadline).value();
  std::memcpy(buffer.data(), &said_, sizeof said_);
  std::memcpy(buffer.data() + sizeof said_, contract_.data(), contract_.size());
  mine_.publish().or_throw();
}

void Agreement::read(Heard& from, Deadline deadline) {
  const SlotRun head{0, static_cast<std::int64_t>(sizeof(Said)), nullptr};
  const Arrival arrival = from.reader.view(std::span(&head, 1), deadline).value();
  std::memcpy(&from.said, arrival.as<std::uint8_t>().data(), sizeof from.said);
}

Agreement::Range Agreement::exchange(const Word& mine, Deadline deadline) {
  const Range own{mine, mine, place_, place_};
  said_ = {said_.exchange + 1, 0, own, said_.now};
  publish(deadline);
  for (Heard& heard : heard_) {
    Said& other = heard.said;
    while (other.exchange < said_.exchange ||
           (other.exchange == said_.exchange && other.rounds < said_.rounds))
      read(heard, deadline);
    // A range of more members than this round is about does no harm.
    said_.now.merge(other.exchange == said_.exchange ? other.now : other.before);
    ++said_.rounds;
    publish(deadline);
  }
  return said_.now;
}

void Agreement::part(Deadline deadline) noexcept {
  try {
    (void)exchange({}, deadline);
  } catch (const std::exception&) {
    return;  // a peer that is gone had read all contracts; the caller throws the error that matters
  }
}

}  // namespace weft::pslib
