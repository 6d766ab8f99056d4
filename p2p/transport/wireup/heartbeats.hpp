// With which ranks of other hosts heartbeats are exchanged, and what their silence means.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace weft::p2p {

/// Requests of one rank about another's heartbeats.
enum class BeatCall : std::uint8_t {
  watch,      ///< I have chosen you: let us give each other signs of life
  no_longer,  ///< I have not, any more; or the alarm is over
  alarm       ///< a rank is silent: I give signs to all that I have met, do so too
};

/// Which ranks send heartbeats to which, as pure state of one rank. While all is well each chooses
/// kWatchers of those that it has met, by a number that spreads them evenly, and they judge each
/// other's silence. A silence that is more than a little lateness is an alarm, which spreads from
/// rank to rank: all judge all that they have met, each living rank beats with all for a moment,
/// and then says that it won't any longer. So those that have fallen silent are judged by
/// everybody, and only ranks that promised signs are judged. Decision 028. One thread.
class Heartbeats {
 public:
  static constexpr int kWatchers = 4;
  /// Heartbeat periods until a silent rank is declared dead.
  static constexpr int kPeriods = 20;
  /// A healthy rank misses two at most: one between its signs, one by their travel.
  static constexpr int kAlarm = 3;
  using Send = std::function<void(int to, BeatCall call)>;

  Heartbeats(int self, int size, Send send);

  void met(int rank);
  void gone(int rank);
  void received(int from, BeatCall call);
  /// A period has passed. Comes before the next two.
  void pass();
  /// Whether the rank gets a sign of life in every period in which nothing else is said to it.
  bool beats_with(int rank) const noexcept { return alarm_left_ > 0 || at(rank).beats(); }
  /// Whether silence of the rank would mean anything.
  bool judges(int rank) const noexcept { return at(rank).watched; }
  /// Whether something has come of the rank in this period. The periods that it has been silent
  /// for; 0 for one that this rank does not judge.
  int silence(int rank, bool heard);
  /// The periods passed so far don't count: this rank was stopped itself.
  void excuse() noexcept;

 private:
  struct Link {
    bool met = false;
    bool chosen = false;   ///< by this rank
    bool asked = false;    ///< by the other
    bool watched = false;  ///< this rank judges the other
    int silent = 0;        ///< periods in which it was judged

    bool beats() const noexcept { return chosen || asked; }
  };

  Link& at(int rank) noexcept { return links_[static_cast<std::size_t>(rank)]; }
  const Link& at(int rank) const noexcept { return links_[static_cast<std::size_t>(rank)]; }
  void choose();
  void raise();  ///< an alarm
  void watch(Link& link) noexcept;

  const int self_;
  const Send send_;
  std::vector<Link> links_;  ///< by rank
  bool changed_ = false;     ///< who is met
  int alarm_left_ = 0;       ///< periods
};

}  // namespace weft::p2p
