// Chooses the algorithm of a collective between hosts, by request, by rule or by expected time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "p2p/transport/capabilities.hpp"
#include "runtime/collective/piece_schedule.hpp"
#include "runtime/collective/schedule.hpp"

namespace weft::detail {

/// The cost of messages and bytes on one fabric, in seconds and bytes per second.
struct LinkCost {
  double latency = 0;    ///< from a put until its receiver, which waits for it, has seen it
  double message = 0;    ///< processor time of the sender for each further message
  double bandwidth = 1;  ///< of one host, all its ranks together
};

/// The costs that weft-tune measures; the defaults are those of a common machine.
struct Costs {
  LinkCost shm{0.5e-6, 0.3e-6, 8e9};
  LinkCost verbs{3e-6, 0.5e-6, 10e9};
  LinkCost tcp{6e-6, 3e-6, 2.4e9};
  double combine = 10e9;  ///< bytes per second of one tensor when two are combined

  /// The costs of a fabric. One that is neither tcp nor verbs costs what shared memory costs.
  LinkCost& of(p2p::FabricKind fabric) noexcept {
    return fabric == p2p::FabricKind::tcp ? tcp : fabric == p2p::FabricKind::verbs ? verbs : shm;
  }
  const LinkCost& of(p2p::FabricKind fabric) const noexcept {
    return const_cast<Costs*>(this)->of(fabric);
  }
};

/// One rule of WEFT_COLL.
struct CollectiveRule {
  std::uint64_t from = 0;  ///< smallest tensor, in bytes
  std::uint64_t to = 0;    ///< largest tensor, in bytes, inclusive
  CollectiveKind kind = CollectiveKind::barrier;
  Algorithm algorithm = Algorithm::automatic;
  std::array<std::uint8_t, 6> reserved{};
};

/// Rules and costs that all ranks of a group use. The group's first rank sends its own to the
/// others, so that all ranks choose alike.
struct Choices {
  static constexpr std::size_t kMostRules = 12;
  std::array<CollectiveRule, kMostRules> rules{};
  std::uint64_t count = 0;  ///< rules in use
  LinkCost within{};        ///< between ranks of one host
  LinkCost between{};       ///< between hosts
  double combine = 0;       ///< bytes per second; 0 in a message that carries no choices
  std::uint64_t piece = Piece::kUsual;  ///< bytes of a piece of a part that has several

  bool says_something() const noexcept { return combine != 0; }
  /// True if a rank may use these choices, received from another rank. Any bytes are valid input.
  bool makes_sense() const noexcept;
};

/// Parses WEFT_COLL: `all_reduce@64k..1m=ring,broadcast=doubling`. The first rule that fits a call
/// counts. Throws Error(bad_config), which names the rule at fault.
Choices parse_rules(std::string_view text);
/// Parses the text that weft-tune writes. Throws Error(bad_config), which names `file` and line.
Costs parse_costs(std::string_view text, const std::string& file);
/// Reads the costs in `file`; an empty name gives the defaults. Throws Error(bad_config).
Costs read_costs(const std::string& file);
/// Formats `costs` as a file that parse_costs() reads.
std::string write_costs(const Costs& costs);

/// Returns the algorithm of the first rule that covers `kind` and `bytes` and whose algorithm
/// `serves` the call; Algorithm::automatic if no rule does.
Algorithm ruled(const Choices& choices, CollectiveKind kind, std::uint64_t bytes,
                const std::function<bool(Algorithm)>& serves);

/// The properties of a call that its algorithm depends on; the same on all ranks.
struct Choosing {
  ScheduleTask task;
  std::size_t element = 1;       ///< bytes of an element of the tensors
  std::size_t wide_element = 1;  ///< bytes of an element in the type used for arithmetic
  Algorithm asked = Algorithm::automatic;
};

/// True if `kind` can go in steps by NUMA nodes within a host (numa_work.cpp).
bool serves_by_nodes(CollectiveKind kind) noexcept;
/// True if `allgather_then_reduce` serves `kind`. Like `direct`, it has no schedule.
bool serves_allgather_then_reduce(CollectiveKind kind) noexcept;
/// Expected time of the call in seconds; below 0 if `algorithm` cannot serve it.
double expected_time(Algorithm algorithm, const Choosing& choosing, const Hosts& hosts,
                     const Choices& choices);
/// Returns the algorithm that the caller asks for, else that of the first rule that can serve the
/// call, else the one with the least expected time. Throws Error(bad_argument) if the requested
/// algorithm cannot serve the call.
Algorithm choose(const Choosing& choosing, const Hosts& hosts, const Choices& choices);

}  // namespace weft::detail
