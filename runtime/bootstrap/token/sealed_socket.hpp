// A connection between two ranks that have met, used by a thread that waits.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/os/fd.hpp"
#include "p2p/transport/auth/record_cipher.hpp"
#include "weft/deadline.hpp"

namespace weft::bootstrap {

/// Sealed records over a TCP socket that does not block. Every call ends by its deadline. Throws
/// Error(timeout), and Error(bootstrap) when the connection is closed, broken, or brings what the
/// other end did not seal; it is of no use then. One thread at a time.
class SealedSocket {
 public:
  SealedSocket(os::Fd socket, p2p::RecordCipher cipher) noexcept
      : socket_(std::move(socket)), cipher_(std::move(cipher)) {}

  void send(std::span<const std::byte> record, Deadline deadline);
  /// A record of at most `most` bytes; a longer one is an error before it is read.
  std::vector<std::byte> receive(std::size_t most, Deadline deadline);

  /// Whether the other end has not closed it.
  bool is_open() const noexcept;

  /// What is sealed already, for many readers.
  void send_as_it_is(std::span<const std::byte> bytes, Deadline deadline);
  std::vector<std::byte> receive_as_it_is(std::size_t most, Deadline deadline);

 private:
  void write(std::span<const std::byte> bytes, Deadline deadline);
  void read(std::span<std::byte> bytes, Deadline deadline);
  void wait_for(short events, Deadline deadline);

  os::Fd socket_;
  p2p::RecordCipher cipher_;
  bool sent_header_ = false;
  bool has_header_ = false;
};

}  // namespace weft::bootstrap
