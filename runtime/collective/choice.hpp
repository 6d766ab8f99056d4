// Which algorithm a collective between hosts goes by.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "p2p/transport/capabilities.hpp"
#include "runtime/collective/schedule.hpp"

namespace weft::detail {

/// What messages and bytes cost on one fabric. Seconds, and bytes a second.
struct LinkCost {
  double latency = 0;    ///< from a put to who waits for it
  double message = 0;    ///< of a processor, for each message besides
  double bandwidth = 1;  ///< of all that a host sends
};

/// What weft-tune measures.
struct Costs {
  LinkCost shm{0.5e-6, 0.3e-6, 8e9};
  LinkCost verbs{3e-6, 0.5e-6, 10e9};
  LinkCost tcp{6e-6, 3e-6, 2.4e9};
  double combine = 10e9;  ///< bytes of a tensor, of two that are combined

  /// The cost of a fabric that is none of the three is shared memory's.
  LinkCost& of(p2p::FabricKind fabric) noexcept {
    return fabric == p2p::FabricKind::tcp ? tcp : fabric == p2p::FabricKind::verbs ? verbs : shm;
  }
  const LinkCost& of(p2p::FabricKind fabric) const noexcept {
    return const_cast<Costs*>(this)->of(fabric);
  }
};

/// One of WEFT_COLL's.
struct CollectiveRule {
  std::uint64_t from = 0;  ///< bytes of the tensor
  std::uint64_t to = 0;    ///< the last that it holds for
  CollectiveKind kind = CollectiveKind::barrier;
  Algorithm algorithm = Algorithm::automatic;
  std::array<std::uint8_t, 6> reserved{};
};

/// What a group goes by: its first rank's, for all.
struct Choices {
  static constexpr std::size_t kMostRules = 12;
  std::array<CollectiveRule, kMostRules> rules{};
  std::uint64_t count = 0;  ///< of rules
  LinkCost within{};
  LinkCost between{};
  double combine = 0;  ///< 0: it says nothing

  bool says_something() const noexcept { return combine != 0; }
  /// Whether a rank may go by what another has sent. Any bytes may be given.
  bool makes_sense() const noexcept;
};

/// `all_reduce@64k..1m=ring,broadcast=doubling`: the first that fits a call counts. Throws
/// Error(bad_config), naming the place.
Choices parse_rules(std::string_view text);
/// As weft-tune writes it. Throws Error(bad_config), naming file and line.
Costs parse_costs(std::string_view text, const std::string& file);
/// The file of that name; none: what weft knows of a common machine.
Costs read_costs(const std::string& file);
/// The text of a file.
std::string write_costs(const Costs& costs);

/// What the first rule says that holds for such a call and whose algorithm `serves` it; automatic:
/// none does.
Algorithm ruled(const Choices& choices, CollectiveKind kind, std::uint64_t bytes,
                const std::function<bool(Algorithm)>& serves);

/// A call as the choice depends on it; the same on all ranks.
struct Choosing {
  ScheduleTask task;
  std::size_t element = 1;       ///< bytes
  std::size_t wide_element = 1;  ///< bytes, of what is calculated with
  Algorithm asked = Algorithm::automatic;
};

/// Whether it can go in steps by NUMA nodes, within a host.
bool serves_by_nodes(CollectiveKind kind) noexcept;
/// Whether `direct` and `allgather_then_reduce` apart from programs serve it.
bool serves_allgather_then_reduce(CollectiveKind kind) noexcept;
/// How long it should take, in seconds; below 0: it can't serve this call.
double expected_time(Algorithm algorithm, const Choosing& choosing, const Hosts& hosts,
                     const Choices& choices);
/// What is asked for, what a rule says if it can serve, or the quickest. Throws Error(bad_argument)
/// where what is asked for can't serve.
Algorithm choose(const Choosing& choosing, const Hosts& hosts, const Choices& choices);

}  // namespace weft::detail
