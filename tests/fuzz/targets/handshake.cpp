// Fuzzes the messages of the handshake before the peer is authenticated, at either end.
#include "p2p/transport/auth/handshake.hpp"
#include "p2p/transport/auth/token_key.hpp"
#include "tests/fuzz/input.hpp"

using namespace weft::p2p;
using weft::fuzz::Input;
using weft::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Identity self(1, 4, token_key("what no input knows"));
  static const Hello own = self.hello(0);
  Input input(data, size);
  switch (input.take<std::uint8_t>() % 4) {
    case 0: {  // the hello of a client
      const auto hello = input.take<Hello>();
      (void)Identity::validate(hello.greeting());
      const bool is_trusted = self.validate(hello).empty();
      if (!is_trusted && !self.is_of_other_job(hello)) break;
      const Answer answer = self.answer(hello);
      require(!self.verify(hello, answer, input.take<Proof>()));
      require(!self.verify(hello, answer, Proof{answer.mac}));
      break;
    }
    case 1: {  // the answer of a server
      const auto answer = input.take<Answer>();
      require(!self.validate(own, answer).empty());
      (void)self.is_of_other_job(answer.hello);
      break;
    }
    case 2: {  // a refusal
      for (const char c : input.take<Refusal>().text()) require(c >= ' ' && c <= '~');
      break;
    }
    default: {  // a valid hello with random changes
      Hello hello = Identity(0, 4, token_key("what no input knows")).hello(1);
      const auto at = input.take<std::uint8_t>() % sizeof hello;
      auto bytes = std::as_writable_bytes(std::span(&hello, 1));
      bytes[at] ^= input.take<std::byte>();
      if (!self.validate(hello).empty()) break;
      require(!self.verify(hello, self.answer(hello), input.take<Proof>()));
    }
  }
  return 0;
}
