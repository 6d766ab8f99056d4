// Judges whether a rank that gives no sign of life is dead.
#pragma once

#include <chrono>
#include <string>

namespace weft::p2p {

/// Receives what p2p sees of its peers' lives. Progress thread only.
class Liveness {
 public:
  virtual ~Liveness() = default;

  /// A period of the heartbeat with a rank of another host has passed. `silence`: for how long
  /// nothing came of it while this rank itself was running; 0: something did. True: that is too
  /// long, the rank is dead.
  virtual bool is_dead(int rank, std::chrono::nanoseconds silence) = 0;
  /// Its host's kernel shows that the rank's process has ended: no more of it can be anywhere.
  virtual void saw_end(int rank) = 0;
  /// The rank says that it has declared this one dead.
  virtual void given_up_by(int rank, const std::string& why) = 0;
  /// The mesh knows that the rank has left or failed; once more when it is silent.
  virtual void peer_status_known(int rank) = 0;
};

}  // namespace weft::p2p
