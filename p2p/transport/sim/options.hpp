// Options of a simulation: the faults of its ranks and paths.
#pragma once

#include <chrono>
#include <cstdint>

namespace weft::p2p::sim {

/// Faults that a correct job must bear. Chances are per operation or per turn.
struct Faults {
  double delayed = 0;     ///< an operation takes up to `longest` instead of about `typical`
  double reordered = 0;   ///< a put or word overtakes those posted before it
  double torn = 0;        ///< a put's payload, or a get's, is moved in pieces, any order
  double duplicated = 0;  ///< a notification comes twice, an equal word is written twice
  double full_queue = 0;  ///< a put is rejected
  double unlent = 0.3;    ///< a put has read its source when it returns
  double woken = 0;       ///< a waiting rank wakes for no reason
  double paused = 0;      ///< before a turn, the rank stops for up to `longest_pause`
  int kills = 0;  ///< ranks that die, each at one of its `kill_within` steps after the first
                  ///< `kill_after`
  int drops = 0;  ///< connections that break, each within `drop_within`

  std::chrono::nanoseconds typical{2'000};
  std::chrono::nanoseconds longest{1'000'000};
  std::chrono::nanoseconds longest_pause{5'000'000};
  std::uint64_t kill_within = 400;
  std::uint64_t kill_after = 0;
  int spared = 0;  ///< the lowest ranks, this many, don't die
  std::chrono::nanoseconds drop_within{5'000'000};
};

/// A defect on purpose: what the tests that run in a simulation must notice.
enum class Plant : std::uint8_t {
  none,
  torn_put,     ///< a put's sequence word may be seen before its payload
  late_put,     ///< a put may arrive after its end of the slot has agreed to the teardown
  lost_credit,  ///< a word written to a peer may vanish
  early_end,    ///< a put may end, by its word, before its source was read
  early_get     ///< a get in pieces may end without its last one
};

struct SimOptions {
  std::uint64_t seed = 1;
  Faults faults = {};
  Plant plant = Plant::none;
  std::chrono::nanoseconds limit = std::chrono::minutes(30);  ///< of the job's own time
  std::uint64_t event_limit = 20'000'000;
  bool print = false;  ///< every event, to stderr
};

}  // namespace weft::p2p::sim
