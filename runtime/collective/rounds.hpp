// The patterns that programs are made of: each adds what one rank does, of several that do the
// same.
#pragma once

#include <bit>
#include <span>
#include <vector>

#include "runtime/collective/schedule.hpp"

namespace weft::detail {

/// Ranks that do something together, and which of them this one is.
struct Members {
  std::span<const int> ranks{};
  int me = 0;

  int size() const noexcept { return static_cast<int>(ranks.size()); }
  int rank(int at) const noexcept {
    return ranks[static_cast<std::size_t>((at % size() + size()) % size())];
  }
};

constexpr bool is_power_of_two(std::size_t number) noexcept { return std::has_single_bit(number); }

/// Steps of one channel, in their order. Every member passes from round to round alike.
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
  /// A send or take of nothing, which bears no more than the call's head.
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

/// A region at each step of halving: what a rank has kept of it, and what it has given away.
struct Halves {
  ElementRange kept;
  ElementRange given;
};

// Where `own` is asked for, it is where this rank's elements are before anything is combined.

/// Neighbours first, so that elements are combined as in the group's tree. A power of two.
std::vector<Halves> scatter_by_halving(Rounds& rounds, const Members& members, ElementRange region,
                                       Step::Place own);
/// Undoes it: every member gets what the others have in `out`.
void gather_by_halving(Rounds& rounds, const Members& members, const std::vector<Halves>& trail);
/// The n-th part ends up, combined, at the n-th member.
void scatter_by_ring(Rounds& rounds, const Members& members, const std::vector<ElementRange>& parts,
                     Step::Place own);
/// The n-th part is at the n-th member first, at `own` there.
void gather_by_ring(Rounds& rounds, const Members& members, const std::vector<ElementRange>& parts,
                    Step::Place own);
/// As by ring, but everybody with everybody.
void scatter_directly(Rounds& rounds, const Members& members,
                      const std::vector<ElementRange>& parts, Step::Place own);
void gather_directly(Rounds& rounds, const Members& members,
                     const std::vector<ElementRange>& parts);
/// Whole, as in the group's tree, by any number of members; and finished.
void reduce_by_doubling(Rounds& rounds, const Members& members, ElementRange region,
                        Step::Place own);
/// From one to the next; `root` is a member's place.
void pass_on(Rounds& rounds, const Members& members, int root, ElementRange region);
/// Those that have it double in each round. `from_in`: the root has it as its input.
void spread(Rounds& rounds, const Members& members, int root, ElementRange region, bool from_in);
void spread(Rounds& rounds, const Members& members, int root, ElementRange region);
/// Nobody is through before everybody has come.
void gather_round(Rounds& rounds, const Members& members);

}  // namespace weft::detail
