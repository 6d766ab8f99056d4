// The messages of an agreement of a group's members on its survivors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/health/places.hpp"

namespace weft::detail {

/// Members that take the same others for gone.
struct AgreementView {
  Places members;
  Places gone;
  Places accusers;  ///< of `gone`: those that have declared `members` dead first
};

/// Views that one message carries at most; the others follow in further messages.
inline constexpr std::size_t kMostViews = 16;

/// A message between members. Requests (prepare, propose) go from the leader down a tree, and the
/// answers (promise, accepted) up the same tree, each for all the members that its sender asked.
struct AgreementMessage {
  enum class Step : std::uint8_t {
    ask,       ///< to a member of a lower place: begin, and report the outcome; or, from a leader
               ///< that gave way, to the member that refused: report the outcome
    prepare,   ///< promise to take part in no older ballot
    promise,   ///< answers prepare: `members` promise
    refuse,    ///< to the leader: a newer ballot was promised: `ballot`
    propose,   ///< `survivors` go on
    accepted,  ///< answers propose: `members` have stored the proposal
    decided,   ///< the outcome is `survivors`
    cut_off,   ///< the leader gives up, because it is in the minority
    count_
  };
  Step step = Step::ask;
  std::uint64_t ballot = 0;
  std::uint64_t accepted = 0;  ///< promise: the newest ballot that any of them accepted; 0: none
  bool more = false;           ///< answers: the sender's next answer names further members
  Places members;              ///< requests: those that the receiver asks, besides itself
  Places survivors;            ///< promise: accepted in `accepted`; propose, decided
  Places gone;                 ///< prepare: the members that are gone for the leader
  Places ended;                ///< ask, promise: members that have certainly ended
  /// promise: of those whose own `gone` differs from that of prepare, or that have accusers.
  std::vector<AgreementView> views;
};

}  // namespace weft::detail
