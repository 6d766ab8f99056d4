// Fuzzes records over a data connection, split at arbitrary places, into bounded memory.
#include <sys/socket.h>

#include <array>
#include <vector>

#include "p2p/transport/tcp/record_reader.hpp"
#include "p2p/transport/tcp/wire.hpp"
#include "tests/fuzz/input.hpp"

using namespace weft;
using namespace weft::p2p::tcp;
using weft::fuzz::Input;
using weft::fuzz::require;

namespace {

/// Gives payloads memory in parts of at most 1 000 bytes, discards some parts, and refuses every
/// fifth record.
class Places final : public RecordSink {
 public:
  bool begin(const Head& head, std::uint64_t already, std::vector<iovec>& places) override {
    require(head.magic == Head::kMagic && already < head.bytes && places.empty());
    const std::uint64_t left = head.bytes - already;
    if (head.index % 5 == 4) return false;
    std::uint64_t given = 0;
    for (std::size_t i = 0; i < 3 && given < left; ++i) {
      const std::uint64_t some = std::min<std::uint64_t>(left - given, memory_.size() / 3);
      const bool is_wanted = (head.key + i) % 3 != 0;
      places.push_back({is_wanted ? memory_.data() + i * (memory_.size() / 3) : nullptr, some});
      given += some;
    }
    return true;
  }
  bool end(const Head& head) override { return head.index % 7 != 6; }
  void malformed(const char* trouble) override { require(trouble != nullptr); }

 private:
  std::vector<std::byte> memory_ = std::vector<std::byte>(3 * 1000);
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  std::array<int, 2> ends{};
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const os::Fd peer(ends[0]);
  Pipe pipe{os::Fd(ends[1])};
  RecordReader incoming(pipe);
  Places places;
  auto rest = input.rest();
  while (!rest.empty()) {
    const std::size_t piece =
        std::min<std::size_t>(rest.size(), 1 + std::to_integer<std::size_t>(rest[0]) * 8);
    (void)!::send(peer.get(), rest.data(), piece, MSG_NOSIGNAL);
    rest = rest.subspan(piece);
    auto state = RecordReader::State::more;
    while (state == RecordReader::State::more) state = incoming.turn(places, 1000);
    if (state == RecordReader::State::failed) return 0;
    require(state == RecordReader::State::drained);
  }
  return 0;
}
