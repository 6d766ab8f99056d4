// A bare Unix socket between two ranks: what a control message costs at least.
#pragma once

#include <cstddef>

#include "base/os/fd.hpp"
#include "benchmarks/harness/limit.hpp"

namespace weft::bench {

/// One end of a SEQPACKET connection between ranks 0 and 1, which both construct. It has no name in
/// a file system. Throws Error(system).
class Seqpacket {
 public:
  /// Introduces the two through the `ping` lines, which must not have been used.
  Seqpacket(const SharedMemory& bare, bool leads);

  /// Both ends call it with the same number: messages of about the size of weft's there and back.
  void run(std::uint32_t round_trips);

 private:
  static constexpr std::size_t kMessageBytes = 512;
  void send();
  void receive();

  bool leads_;
  os::Fd socket_;
};

}  // namespace weft::bench
