// Blocking exchange of sealed records between two ranks over an authenticated connection.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/os/fd.hpp"
#include "p2p/transport/auth/record_cipher.hpp"
#include "weft/deadline.hpp"

namespace weft::bootstrap {

/// Sealed records over a non-blocking TCP socket. Every call ends by its deadline. Throws
/// Error(timeout), and Error(bootstrap) if the connection is closed or broken, or if a record was
/// not sealed by the other end. The socket is unusable after an error. Not thread-safe.
class SealedSocket {
 public:
  SealedSocket(os::Fd socket, p2p::RecordCipher cipher) noexcept
      : socket_(std::move(socket)), cipher_(std::move(cipher)) {}

  void send(std::span<const std::byte> record, Deadline deadline);
  /// Receives a record of at most `most` bytes; fails on a longer one before reading it.
  std::vector<std::byte> receive(std::size_t most, Deadline deadline);

  /// True unless the other end has closed the connection.
  bool is_open() const noexcept;

  /// Sends or receives bytes without the cipher, because they are sealed already for many readers.
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
