// Fuzzes the messages of the handshake before the peer is authenticated, at either end.
#include "p2p/transport/auth/handshake.hpp"
#include "p2p/transport/auth/token_key.hpp"
#include "tests/fuzz/input.hpp"

using namespace weft::p2p;
using weft::fuzz::Input;
using weft::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Identity self(1, 4, token_key("what no input knows"));
  static const Handshake own = self.handshake(0);
  Input input(data, size);
  switch (input.take<std::uint8_t>() % 4) {
    case 0: {  // the handshake of a client
      const auto handshake = input.take<Handshake>();
      (void)Identity::validate(handshake.protocol);
      const bool is_trusted = self.validate(handshake).empty();
      if (!is_trusted && !self.is_of_other_job(handshake)) break;
      const Answer answer = self.answer(handshake);
      require(!self.verify(handshake, answer, input.take<Proof>()));
      require(!self.verify(handshake, answer, Proof{answer.mac}));
      break;
    }
    case 1: {  // the answer of a server
      const auto answer = input.take<Answer>();
      require(!self.validate(own, answer).empty());
      (void)self.is_of_other_job(answer.handshake);
      break;
    }
    case 2: {  // a refusal
      for (const char c : input.take<Refusal>().text()) require(c >= ' ' && c <= '~');
      break;
    }
    default: {  // a valid handshake with random changes
      Handshake handshake = Identity(0, 4, token_key("what no input knows")).handshake(1);
      const auto at = input.take<std::uint8_t>() % sizeof handshake;
      auto bytes = std::as_writable_bytes(std::span(&handshake, 1));
      bytes[at] ^= input.take<std::byte>();
      if (!self.validate(handshake).empty()) break;
      require(!self.verify(handshake, self.answer(handshake), input.take<Proof>()));
    }
  }
  return 0;
}
