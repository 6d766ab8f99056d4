// Heartbeats between ranks that have met, and how long silence is borne.
#include "p2p/transport/wireup/connector_implementation.hpp"

namespace weft::p2p {
namespace {

constexpr int kPeriods = Heartbeats::kPeriods;
/// As many periods at a time: this process was stopped. Being a little late is no excuse for the
/// peer, or on a busy machine a dead one would never be found.
constexpr std::uint64_t kPausePeriods = kPeriods / 4;

}  // namespace

bool Connector::Implementation::is_dead(int rank, int silent_periods) {
  if (local.liveness != nullptr)
    return local.liveness->is_dead(rank, silent_periods * (dead_after / kPeriods));
  return silent_periods >= kPeriods;
}

void Connector::Implementation::beat(std::uint64_t expired) {
  // A rank that was stopped itself can't tell how long the others were silent.
  const bool was_stopped = expired >= kPausePeriods;
  if (was_stopped) beats->excuse();
  beats->pass();
  for (int rank = 0; rank < static_cast<int>(peers.size()); ++rank) {
    Peer& p = peer(rank);
    if (p.beats_given_up > 0) beat_given_up(p);
    if (p.state != State::met) continue;
    if (was_stopped) p.stream->excuse();
    const int unheard = p.stream->tick(beats->beats_with(rank));
    if (p.state != State::met || !p.stream->is_open()) continue;
    if (p.stream->has_said_end()) {
      if (unheard < kPeriods) continue;
      close(rank, why_silent);
      events.ended(rank, true, why_silent);
      continue;
    }
    const bool heard = unheard == 0 || (beats->judges(rank) && events.heard_otherwise(rank));
    if (!is_dead(rank, beats->silence(rank, heard))) continue;
    close(rank, why_silent);
    events.silent(rank, why_silent);
  }
}

void Connector::Implementation::beat_given_up(Peer& p) {
  // The reason given to it travels as long as the kernel tries.
  p.stream->tick(true);
  if (p.stream->is_open() && --p.beats_given_up > 0) return;
  p.stream->close();
  p.beats_given_up = 0;
  stream_closed();
}

}  // namespace weft::p2p
