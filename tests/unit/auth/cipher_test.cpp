// Records that one end of a connection seals can be read by the other end only, and only in order.
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

/// The plain text of `record`, or "(refused)".
Bytes opened(RecordCipher& by, const Bytes& record) {
  Bytes plain(record.size() - RecordCipher::kOverhead);
  return by.open(record, plain) ? plain : bytes("(refused)");
}

/// Both ends of a proven connection.
struct Ends {
  explicit Ends(int of_secret = 7)
      : keys(keys_of(of_secret)),
        client(keys.to_server, keys.to_client),
        server(keys.to_client, keys.to_server) {
    client.begin(server.header());
    server.begin(client.header());
  }
  static ConnectionKeys keys_of(int of_secret) {
    (void)token_key("libsodium is ready from here on");
    Identity::Secret secret;
    secret.fill(static_cast<std::byte>(of_secret));
    const Identity client(1, 2, secret);
    const Identity server(0, 2, secret);
    const Handshake handshake = client.handshake(0);
    const Answer answer = server.answer(handshake);
    const auto keys = client.keys(handshake, answer.handshake);
    const auto same = server.keys(handshake, answer.handshake);
    EXPECT_EQ(keys.to_server, same.to_server);
    EXPECT_EQ(keys.to_client, same.to_client);
    EXPECT_NE(keys.to_server, keys.to_client);
    return keys;
  }

  ConnectionKeys keys;
  RecordCipher client;
  RecordCipher server;
};

TEST(RecordCipher, CarriesRecordsBothWays) {
  Ends ends;
  for (const std::string_view text : {"first", "", "third, somewhat longer"}) {
    const Bytes plain = bytes(text);
    const Bytes there = sealed(ends.client, plain);
    if (!plain.empty()) {
      EXPECT_EQ(std::search(there.begin(), there.end(), plain.begin(), plain.end()), there.end());
    }
    EXPECT_EQ(opened(ends.server, there), plain);
    EXPECT_EQ(opened(ends.client, sealed(ends.server, plain)), plain);
  }
}

TEST(RecordCipher, RefusesWhatWasChanged) {
  const Bytes plain = bytes("one record");
  for (std::size_t at = 0; at < plain.size() + RecordCipher::kOverhead; ++at) {
    Ends ends;
    Bytes record = sealed(ends.client, plain);
    record[at] ^= std::byte{1};
    EXPECT_EQ(opened(ends.server, record), bytes("(refused)")) << "byte " << at;
  }
}

TEST(RecordCipher, RefusesWhatWasRepeatedLeftOutOrMoved) {
  Ends repeated;
  const Bytes once = sealed(repeated.client, bytes("once"));
  EXPECT_EQ(opened(repeated.server, once), bytes("once"));
  EXPECT_EQ(opened(repeated.server, once), bytes("(refused)"));

  Ends moved;
  const Bytes first = sealed(moved.client, bytes("first"));
  const Bytes second = sealed(moved.client, bytes("second"));
  EXPECT_EQ(opened(moved.server, second), bytes("(refused)"));
}

TEST(RecordCipher, RefusesWhatComesBackOrFromElsewhere) {
  Ends ends;
  const Bytes own = sealed(ends.client, bytes("to the other end"));
  EXPECT_EQ(opened(ends.client, own), bytes("(refused)"));
  // The same job's next connection: other nonces, other keys.
  Ends next;
  EXPECT_NE(ends.keys.to_server, next.keys.to_server);
  EXPECT_EQ(opened(next.server, own), bytes("(refused)"));
}

TEST(RecordCipher, OpensNothingBeforeItHasTheHeader) {
  Ends ends;
  RecordCipher fresh(ends.keys.to_client, ends.keys.to_server);
  EXPECT_EQ(opened(fresh, sealed(ends.client, bytes("early"))), bytes("(refused)"));
  Bytes nothing;
  EXPECT_FALSE(ends.server.open(Bytes(RecordCipher::kOverhead - 1), nothing));
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
