// A bare Unix socket between two ranks: the least cost of a control message.
#pragma once

#include <cstddef>

#include "base/os/fd.hpp"
#include "benchmarks/harness/limit.hpp"

namespace weft::bench {

/// One end of a SEQPACKET connection between ranks 0 and 1; both construct one. Has no name in a
/// file system. Throws Error(system).
class Seqpacket {
 public:
  /// Connects the two through the `ping` lines, which must be unused.
  Seqpacket(const SharedMemory& bare, bool leads);

  /// Sends messages of about the size of weft's there and back. Both ends call it with the same
  /// number.
  void run(std::uint32_t round_trips);

 private:
  static constexpr std::size_t kMessageBytes = 512;
  void send();
  void receive();

  bool leads_;
  os::Fd socket_;
};

}  // namespace weft::bench
