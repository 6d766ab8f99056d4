#include "runtime/collective/rounds.hpp"

#include <algorithm>

namespace weft::detail {
namespace {

using Place = Step::Place;

/// Halves begin at whole cache lines of any type, if a half has at least one.
constexpr std::int64_t kAligned = 64;

std::int64_t half(std::int64_t count) noexcept {
  const std::int64_t middle = count / 2;
  return middle >= kAligned ? middle / kAligned * kAligned : middle;
}

ElementRange part(const std::vector<ElementRange>& parts, int at) noexcept {
  const int size = static_cast<int>(parts.size());
  return parts[static_cast<std::size_t>((at % size + size) % size)];
}

}  // namespace

std::vector<Halves> scatter_by_halving(Rounds& rounds, const Members& members, ElementRange region,
                                       Place own) {
  std::vector<Halves> trail;
  for (int bit = 1; bit < members.size(); bit *= 2, rounds.next()) {
    const bool upper = (members.me & bit) != 0;
    const ElementRange low{region.first, half(region.count)};
    const ElementRange high{region.first + low.count, region.count - low.count};
    const Halves halves{upper ? high : low, upper ? low : high};
    const int peer = members.rank(members.me ^ bit);
    rounds.send(peer, own, halves.given);
    rounds.join(peer, own, halves.kept, upper);
    trail.push_back(halves);
    region = halves.kept;
    own = Place::sum;
  }
  return trail;
}

void gather_by_halving(Rounds& rounds, const Members& members, const std::vector<Halves>& trail) {
  for (std::size_t level = trail.size(); level-- > 0; rounds.next()) {
    const int peer = members.rank(members.me ^ (1 << level));
    rounds.send(peer, Place::out, trail[level].kept);
    rounds.take(peer, trail[level].given);
  }
}

void scatter_by_ring(Rounds& rounds, const Members& members, const std::vector<ElementRange>& parts,
                     Place own) {
  for (int step = 1; step < members.size(); ++step, rounds.next()) {
    rounds.send(members.rank(members.me + 1), step == 1 ? own : Place::sum,
                part(parts, members.me - step));
    rounds.join(members.rank(members.me - 1), own, part(parts, members.me - step - 1), true);
  }
}

void gather_by_ring(Rounds& rounds, const Members& members, const std::vector<ElementRange>& parts,
                    Place own) {
  for (int step = 0; step + 1 < members.size(); ++step, rounds.next()) {
    rounds.send(members.rank(members.me + 1), step == 0 ? own : Place::out,
                part(parts, members.me - step));
    rounds.take(members.rank(members.me - 1), part(parts, members.me - step - 1));
  }
}

void scatter_directly(Rounds& rounds, const Members& members,
                      const std::vector<ElementRange>& parts, Place own) {
  for (int step = 1; step < members.size(); ++step, rounds.next()) {
    rounds.send(members.rank(members.me + step), own, part(parts, members.me + step));
    rounds.join(members.rank(members.me - step), step == 1 ? own : Place::sum,
                part(parts, members.me), true);
  }
}

void gather_directly(Rounds& rounds, const Members& members,
                     const std::vector<ElementRange>& parts) {
  for (int step = 1; step < members.size(); ++step, rounds.next()) {
    rounds.send(members.rank(members.me + step), Place::out, part(parts, members.me));
    rounds.take(members.rank(members.me - step), part(parts, members.me - step));
  }
}

void reduce_by_doubling(Rounds& rounds, const Members& members, ElementRange region, Place own) {
  const int size = members.size();
  for (int width = 1; width < size; width *= 2, rounds.next()) {
    const int block = members.me / width * width;
    const int sibling = block ^ width;
    if (sibling >= size) continue;
    // The last branch may be shorter than its sibling: each of its members then sends to several.
    const int here = std::min(width, size - block);
    const int there = std::min(width, size - sibling);
    const int at = members.me - block;
    for (int i = at; i < there; i += here) rounds.send(members.rank(sibling + i), own, region);
    rounds.join(members.rank(sibling + at % there), own, region, sibling < block, true);
    own = Place::sum;
  }
  rounds.finish(region);
}

void pass_on(Rounds& rounds, const Members& members, int root, ElementRange region) {
  const int size = members.size();
  const int at = (members.me - root + size) % size;
  const int first = rounds.round();
  if (at > 0) {
    rounds.go_to(first + at - 1);
    rounds.take(members.rank(members.me - 1), region);
  }
  if (at + 1 == size) return;
  rounds.go_to(first + at);
  rounds.send(members.rank(members.me + 1), at == 0 ? Place::in : Place::out, region);
}

void spread(Rounds& rounds, const Members& members, int root, ElementRange region, bool from_in) {
  const int size = members.size();
  const int at = (members.me - root + size) % size;
  for (int width = 1; width < size; width *= 2, rounds.next()) {
    if (at < width && at + width < size)
      rounds.send(members.rank(members.me + width), from_in ? Place::in : Place::out, region);
    if (at >= width && at < 2 * width) rounds.take(members.rank(members.me - width), region);
  }
}

void spread(Rounds& rounds, const Members& members, int root, ElementRange region) {
  spread(rounds, members, root, region, members.me == root);
}

void gather_round(Rounds& rounds, const Members& members) {
  for (int width = 1; width < members.size(); width *= 2, rounds.next())
    rounds.sign(members.rank(members.me + width), members.rank(members.me - width));
}

}  // namespace weft::detail
