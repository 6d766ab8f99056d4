// What the ends of a connection seal, they alone can read, in its order.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "p2p/transport/auth/handshake.hpp"
#include "p2p/transport/auth/record_cipher.hpp"
#include "p2p/transport/auth/sealed_message.hpp"
#include "p2p/transport/auth/token_key.hpp"

namespace weft::p2p {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes(std::string_view text) {
  const auto all = std::as_bytes(std::span(text));
  return {all.begin(), all.end()};
}

Bytes sealed(RecordCipher& by, const Bytes& plain) {
  Bytes out(plain.size() + RecordCipher::kOverhead);
  by.seal(plain, out);
  return out;
}

/// What it reads, or "(refused)".
Bytes opened(RecordCipher& by, const Bytes& record) {
  Bytes plain(record.size() - RecordCipher::kOverhead);
  return by.open(record, plain) ? plain : bytes("(refused)");
}

/// Both ends of a proven connection.
struct Ends {
  explicit Ends(int of_secret = 7)
      : keys(keys_of(of_secret)),
        caller(keys.to_called, keys.to_caller),
        called(keys.to_caller, keys.to_called) {
    caller.begin(called.header());
    called.begin(caller.header());
  }
  static ConnectionKeys keys_of(int of_secret) {
    (void)token_key("libsodium is ready from here on");
    Identity::Secret secret;
    secret.fill(static_cast<std::byte>(of_secret));
    const Identity caller(1, 2, secret);
    const Identity called(0, 2, secret);
    const Hello hello = caller.hello(0);
    const Answer answer = called.answer(hello);
    const auto keys = caller.keys(hello, answer.hello);
    const auto same = called.keys(hello, answer.hello);
    EXPECT_EQ(keys.to_called, same.to_called);
    EXPECT_EQ(keys.to_caller, same.to_caller);
    EXPECT_NE(keys.to_called, keys.to_caller);
    return keys;
  }

  ConnectionKeys keys;
  RecordCipher caller;
  RecordCipher called;
};

TEST(RecordCipher, CarriesRecordsBothWays) {
  Ends ends;
  for (const std::string_view text : {"first", "", "third, somewhat longer"}) {
    const Bytes plain = bytes(text);
    const Bytes there = sealed(ends.caller, plain);
    if (!plain.empty()) {
      EXPECT_EQ(std::search(there.begin(), there.end(), plain.begin(), plain.end()), there.end());
    }
    EXPECT_EQ(opened(ends.called, there), plain);
    EXPECT_EQ(opened(ends.caller, sealed(ends.called, plain)), plain);
  }
}

TEST(RecordCipher, RefusesWhatWasChanged) {
  const Bytes plain = bytes("one record");
  for (std::size_t at = 0; at < plain.size() + RecordCipher::kOverhead; ++at) {
    Ends ends;
    Bytes record = sealed(ends.caller, plain);
    record[at] ^= std::byte{1};
    EXPECT_EQ(opened(ends.called, record), bytes("(refused)")) << "byte " << at;
  }
}

TEST(RecordCipher, RefusesWhatWasRepeatedLeftOutOrMoved) {
  Ends repeated;
  const Bytes once = sealed(repeated.caller, bytes("once"));
  EXPECT_EQ(opened(repeated.called, once), bytes("once"));
  EXPECT_EQ(opened(repeated.called, once), bytes("(refused)"));

  Ends moved;
  const Bytes first = sealed(moved.caller, bytes("first"));
  const Bytes second = sealed(moved.caller, bytes("second"));
  EXPECT_EQ(opened(moved.called, second), bytes("(refused)"));
}

TEST(RecordCipher, RefusesWhatComesBackOrFromElsewhere) {
  Ends ends;
  const Bytes own = sealed(ends.caller, bytes("to the other end"));
  EXPECT_EQ(opened(ends.caller, own), bytes("(refused)"));
  // The same job's next connection: other nonces, other keys.
  Ends next;
  EXPECT_NE(ends.keys.to_called, next.keys.to_called);
  EXPECT_EQ(opened(next.called, own), bytes("(refused)"));
}

TEST(RecordCipher, OpensNothingBeforeItHasTheHeader) {
  Ends ends;
  RecordCipher fresh(ends.keys.to_caller, ends.keys.to_called);
  EXPECT_EQ(opened(fresh, sealed(ends.caller, bytes("early"))), bytes("(refused)"));
  Bytes nothing;
  EXPECT_FALSE(ends.called.open(Bytes(RecordCipher::kOverhead - 1), nothing));
}

TEST(SealedMessage, OpensByItsKeyAlone) {
  (void)token_key("libsodium is ready from here on");
  const MessageKey key = draw_message_key();
  Bytes message = seal_message(key, bytes("for all"));
  EXPECT_EQ(open_message(key, message), bytes("for all"));
  EXPECT_EQ(open_message(draw_message_key(), message), std::nullopt);
  message.back() ^= std::byte{1};
  EXPECT_EQ(open_message(key, message), std::nullopt);
  EXPECT_EQ(open_message(key, Bytes(kSealOverhead - 1)), std::nullopt);
}

}  // namespace
}  // namespace weft::p2p
