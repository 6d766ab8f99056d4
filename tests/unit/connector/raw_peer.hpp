// A process that sends raw bytes to a rank's connector, as a peer or as an attacker.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>

#include "base/os/fd.hpp"
#include "p2p/transport/address/ip_address.hpp"
#include "p2p/transport/auth/handshake.hpp"

namespace weft::p2p::tests {

/// A blocking connection to the first IP address of a rank. Reads wait 10 s at most.
class RawPeer {
 public:
  explicit RawPeer(const ConnectorAddress& to) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const SocketAddress address = socket_address(to.ips[0], to.port);
    if (::connect(socket_.get(), address.get(), address.size) != 0)
      throw std::runtime_error("the test can't connect");
  }
  explicit RawPeer(os::Fd socket) : socket_(std::move(socket)) {}

  /// False once the other end is gone.
  bool send(std::span<const std::byte> bytes) {
    return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  bool send(std::string_view text) { return send(std::as_bytes(std::span(text))); }
  template <typename Record>
  bool send_record(const Record& record) {
    return send(std::as_bytes(std::span(&record, 1)));
  }

  template <typename Record>
  std::optional<Record> receive() {
    Record record;
    const auto bytes = std::as_writable_bytes(std::span(&record, 1));
    for (std::size_t have = 0; have < bytes.size();) {
      if (!readable(std::chrono::seconds(10))) return std::nullopt;
      const ssize_t got = ::recv(socket_.get(), bytes.data() + have, bytes.size() - have, 0);
      if (got <= 0) return std::nullopt;
      have += static_cast<std::size_t>(got);
    }
    return record;
  }
  bool readable(std::chrono::milliseconds patience) {
    pollfd at{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&at, 1, static_cast<int>(patience.count())) == 1;
  }
  /// Whether the other end closes the connection, within 10 s.
  bool is_closed() {
    std::array<std::byte, 4096> rest;
    ssize_t got = 1;
    while (got > 0 && readable(std::chrono::seconds(10)))
      got = ::recv(socket_.get(), rest.data(), rest.size(), 0);
    return got <= 0;
  }

  /// Authenticates as a rank of the job does; keeps the messages that were exchanged.
  bool authenticate(const Identity& self, int to) {
    handshake = self.handshake(to);
    send_record(handshake);
    const auto answered = receive<Answer>();
    if (!answered || !self.validate(handshake, *answered).empty()) return false;
    answer = *answered;
    proof = self.prove(handshake, answer);
    send_record(proof);
    return receive<std::uint16_t>() == 0;
  }
  Handshake handshake;
  Answer answer;
  Proof proof;

 private:
  os::Fd socket_;
};

}  // namespace weft::p2p::tests
