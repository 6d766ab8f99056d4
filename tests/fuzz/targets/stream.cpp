// Fuzzes frames between ranks of different hosts, split at arbitrary places.
#include <sys/socket.h>

#include <array>

#include "p2p/transport/wireup/stream.hpp"
#include "tests/fuzz/input.hpp"

using namespace weft;
using namespace weft::p2p;
using weft::fuzz::Input;
using weft::fuzz::require;

namespace {

/// Sends the input in pieces; the stream reads after each, as when its socket is readable.
void feed(Input& input) {
  static ProgressThread progress;  // it is never started: this thread does its work
  std::array<int, 2> ends{};
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const os::Fd peer(ends[0]);
  bool has_ended = false;
  Stream stream(progress, os::Fd(ends[1]),
                {.said =
                     [](std::span<const std::byte> message) {
                       require(!message.empty() && message.size() <= Stream::kMaxMessage);
                     },
                 .beat_called = [](BeatCall call) { require(call <= BeatCall::alarm); },
                 .ended =
                     [&](Stream::How, const std::string& why) {
                       require(!has_ended && !why.empty());
                       has_ended = true;
                     }});
  auto rest = input.rest();
  while (!rest.empty() && stream.is_open()) {
    const std::size_t piece =
        std::min<std::size_t>(rest.size(), 1 + std::to_integer<std::size_t>(rest[0]) * 8);
    (void)!::send(peer.get(), rest.data(), piece, MSG_NOSIGNAL);
    rest = rest.subspan(piece);
    // After a silent period, the stream reads waiting data before it counts the silence.
    (void)stream.tick(true);
    if (stream.is_open()) stream.excuse();
    std::array<std::byte, 256> unread;
    while (::recv(peer.get(), unread.data(), unread.size(), MSG_DONTWAIT) > 0) {
    }
  }
  require(stream.is_open() != has_ended);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  feed(input);
  return 0;
}
