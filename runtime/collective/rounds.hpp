// Communication patterns that schedules are composed of. Each adds the steps of one rank; all
// members add theirs alike.
#pragma once

#include <bit>
#include <span>
#include <vector>

#include "runtime/collective/schedule.hpp"

namespace weft::detail {

/// Ranks that take part in a pattern.
struct Members {
  std::span<const int> ranks{};
  int me = 0;  ///< index of this rank in `ranks`

  int size() const noexcept { return static_cast<int>(ranks.size()); }
  int rank(int at) const noexcept {
    return ranks[static_cast<std::size_t>((at % size() + size()) % size())];
  }
};

constexpr bool is_power_of_two(std::size_t number) noexcept { return std::has_single_bit(number); }

/// Collects the steps of one channel, in order. All members advance through the rounds alike.
class Rounds {
 public:
  Rounds(std::vector<Step>& moves, int channel) : moves_(moves), channel_(channel) {}

  void send(int peer, Step::Place from, ElementRange region) {
    add({.what = Step::What::send, .place = from, .peer = peer, .region = region});
  }
  void take(int peer, ElementRange region) {
    add({.what = Step::What::recv, .place = Step::Place::out, .peer = peer, .region = region});
  }
  void join(int peer, Step::Place own, ElementRange region, bool theirs_first,
            bool overwrites = false) {
    add({.what = Step::What::recv_reduce,
         .place = own,
         .theirs_first = theirs_first,
         .overwrites = overwrites,
         .peer = peer,
         .region = region});
  }
  void upcast(ElementRange region) { add({.what = Step::What::upcast, .region = region}); }
  void finish(ElementRange region) { add({.what = Step::What::finish, .region = region}); }
  /// Adds an empty send and an empty recv, which carry no more than the call's head.
  void sign(int to, int from) {
    moves_.push_back({.what = Step::What::send, .channel = channel_, .round = round_, .peer = to});
    moves_.push_back(
        {.what = Step::What::recv, .channel = channel_, .round = round_, .peer = from});
  }

  void next() noexcept { ++round_; }
  void go_to(int round) noexcept { round_ = round; }
  int round() const noexcept { return round_; }

 private:
  void add(Step move) {
    if (move.region.count == 0) return;
    move.channel = channel_;
    move.round = round_;
    moves_.push_back(move);
  }

  std::vector<Step>& moves_;
  const int channel_;
  int round_ = 0;
};

/// One level of recursive halving: the half of a region that a rank keeps, and the half that it
/// gives away.
struct Halves {
  ElementRange kept;
  ElementRange given;
};

// In the functions below, `own` is the place of this rank's elements before any are combined.

/// Reduce-scatter by recursive halving, nearest neighbours first, so that elements are combined as
/// in the group's tree. The number of members must be a power of two.
std::vector<Halves> scatter_by_halving(Rounds& rounds, const Members& members, ElementRange region,
                                       Step::Place own);
/// Allgather by recursive doubling: reverses scatter_by_halving(). Every member receives into its
/// `out` what the others have there.
void gather_by_halving(Rounds& rounds, const Members& members, const std::vector<Halves>& trail);
/// Reduce-scatter by ring: part n ends up, combined, at member n.
void scatter_by_ring(Rounds& rounds, const Members& members, const std::vector<ElementRange>& parts,
                     Step::Place own);
/// Allgather by ring: part n starts at member n, in its `own`.
void gather_by_ring(Rounds& rounds, const Members& members, const std::vector<ElementRange>& parts,
                    Step::Place own);
/// Reduce-scatter and allgather like the rings, but every member exchanges with every other.
void scatter_directly(Rounds& rounds, const Members& members,
                      const std::vector<ElementRange>& parts, Step::Place own);
void gather_directly(Rounds& rounds, const Members& members,
                     const std::vector<ElementRange>& parts);
/// Recursive doubling of a whole region, in the order of the group's tree, for any number of
/// members. Includes the finish step.
void reduce_by_doubling(Rounds& rounds, const Members& members, ElementRange region,
                        Step::Place own);
/// Broadcast along a chain of members; `root` is a member's index.
void pass_on(Rounds& rounds, const Members& members, int root, ElementRange region);
/// Broadcast by doubling: the members that have the region send it on in each round. `from_in`: the
/// root sends from its input.
void spread(Rounds& rounds, const Members& members, int root, ElementRange region, bool from_in);
void spread(Rounds& rounds, const Members& members, int root, ElementRange region);
/// Barrier by doubling: no member completes before all have entered.
void gather_round(Rounds& rounds, const Members& members);

}  // namespace weft::detail
