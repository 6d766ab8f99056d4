// A connection's bytes, in and out.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/os/fd.hpp"
#include "p2p/transport/auth/record_cipher.hpp"

namespace weft::p2p::tcp {

/// Never blocks. One thread at a time may send, and one receive.
class Pipe {
 public:
  /// `out` stands for `in` too, if that is none.
  explicit Pipe(os::Fd out, os::Fd in = {}) noexcept;
  /// The bytes on the connection are encrypted.
  Pipe(os::Fd socket, RecordCipher cipher);
  ~Pipe();
  Pipe(Pipe&&) noexcept;
  Pipe& operator=(Pipe&&) noexcept;

  int in() const noexcept { return in_ ? in_.get() : out_.get(); }
  int out() const noexcept { return out_.get(); }
  bool is_sealed() const noexcept { return sealed_ != nullptr; }

  struct Moved {
    std::size_t bytes = 0;
    int error = 0;     ///< an errno, but none for want of room or bytes
    bool end = false;  ///< received: nothing will follow
  };
  enum class Memory : std::uint8_t {
    settled,
    unproved  ///< its owner may be writing it; the receiver finds out by what comes behind
  };
  /// As much as there is room for.
  Moved send(std::span<const iovec> parts, Memory memory = Memory::settled) noexcept;
  /// Receives the bytes that are there, at most as many as there is room for. EBADMSG: they are not
  /// what the peer encrypted.
  Moved receive(std::span<const iovec> parts) noexcept;
  /// Whether there is room for much: taking every little at once would cost a call for each packet.
  bool has_room() const noexcept;
  /// Whether something that was sent is still here for want of room; an empty send moves it.
  bool holds() const noexcept;
  /// Whether something is here to be received, though the connection may have nothing more.
  bool has_received() const noexcept;
  /// From now on has_enough() once `bytes` are there, and who sleeps on the connection is not woken
  /// before; 1: by anything. The kernel shortens what it has no room for.
  void expect(std::size_t bytes) noexcept;
  /// Whether what is expected is there, or the end.
  bool has_enough() const noexcept;
  /// Nothing is sent or received any more, by any fork of this process either.
  void shut() noexcept;

 private:
  struct Sealed;

  os::Fd out_;
  os::Fd in_;
  std::size_t expected_ = 1;
  std::unique_ptr<Sealed> sealed_;
};

}  // namespace weft::p2p::tcp
