// Only subscribers get data from publishers; and the accepted values of WEFT_SUBSCRIBE_ADDR.
#include "runtime/subscribe/subscriber_acceptor.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>
#include <chrono>

#include <filesystem>
#include <string>

#include "base/config.hpp"
#include "p2p/transport/auth/token_key.hpp"
#include "runtime/subscribe/subscriber_address.hpp"
#include "runtime/subscribe/subscriber_connect.hpp"
#include "tests/support/soon.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "tests/unit/connector/raw_peer.hpp"
#include "weft/error.hpp"

namespace weft::subscribe {
namespace {

using p2p::tests::RawPeer;

const std::string kToken(32, 'k');

/// An acceptor that accepts every client that knows the token.
class SubscriberAcceptorTest : public testing::Test {
 public:
  SubscriberAcceptorTest() {
    thread.start();
    thread.run([this] { acceptor.open(); });
    const auto where = look_up(address);
    to.count = 1;
    to.ips[0] = where.ips.at(0);
    to.port = where.port;
  }
  ~SubscriberAcceptorTest() override { thread.stop(); }

  bool rejected_connections(std::uint64_t count) const {
    (void)weft::tests::soon([&] { return acceptor.rejected_connections() >= count; });
    return acceptor.rejected_connections() == count;
  }

  weft::tests::TempFolder folder;
  SubscriberAddress address{.file = (folder.path() / "address").string()};
  Log log{Config().with(Setting::log, "error"), "host", -1};
  p2p::Identity::Secret key = p2p::token_key(kToken, p2p::TokenUse::subscribers);
  p2p::ProgressThread thread;
  SubscriberAcceptor acceptor{
      thread, log, {.address = address, .iface = "127.0.0.1", .key = key}, [](os::Fd& socket) {
        (void)p2p::send_record(socket.get(), std::uint16_t{0});
        return std::string();
      }};
  p2p::ConnectorAddress to{};
};

TEST_F(SubscriberAcceptorTest, LetsInWhoKnowsTheToken) {
  EXPECT_TRUE(call(address, key, Deadline::after(std::chrono::seconds(10))));
  EXPECT_EQ(acceptor.rejected_connections(), 0U);
  EXPECT_EQ(acceptor.address(), p2p::text(to.ips[0], to.port));
}

TEST_F(SubscriberAcceptorTest, TurnsAwayWhoDoesNotOrWantsSomethingElse) {
  // A client with the same token, as the ranks of a job use it.
  RawPeer rank(to);
  EXPECT_FALSE(rank.authenticate(subscriber_identity(p2p::token_key(kToken)), 0));
  EXPECT_TRUE(rejected_connections(1));
  // A client that knows the token, but introduces itself as a rank.
  RawPeer other(to);
  EXPECT_FALSE(other.authenticate(subscriber_identity(key), 0));
  const auto refusal = other.receive<p2p::Refusal>();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->text(), "only subscribers are let in here");
  RawPeer garbage(to);
  garbage.send(std::string(64, 'g'));
  EXPECT_TRUE(garbage.is_closed());
  EXPECT_TRUE(rejected_connections(2));
}

TEST_F(SubscriberAcceptorTest, GivesNothingToAReplayOfASubscriber) {
  const p2p::Identity subscriber = subscriber_identity(key);
  RawPeer genuine(to);
  const p2p::Handshake handshake = subscriber.handshake(0, p2p::Purpose::subscriber);
  genuine.send_record(handshake);
  const auto answer = genuine.receive<p2p::Answer>();
  ASSERT_TRUE(answer);
  const p2p::Proof proof = subscriber.prove(handshake, *answer);
  genuine.send_record(proof);
  EXPECT_EQ(genuine.receive<std::uint16_t>(), 0);
  RawPeer replay(to);
  replay.send_record(handshake);
  ASSERT_TRUE(replay.receive<p2p::Answer>());
  replay.send_record(proof);
  EXPECT_TRUE(replay.is_closed());
  EXPECT_TRUE(rejected_connections(1));
}

TEST_F(SubscriberAcceptorTest, TellsAnotherVersionItsOwn) {
  RawPeer peer(to);
  peer.send_record(p2p::Handshake::Protocol{.magic = p2p::Handshake::kMagic,
                                            .version = p2p::RankAddress::kVersion + 1});
  const auto protocol = peer.receive<p2p::Handshake::Protocol>();
  ASSERT_TRUE(protocol);
  EXPECT_EQ(protocol->version, p2p::RankAddress::kVersion);
  EXPECT_TRUE(rejected_connections(1));
}

TEST_F(SubscriberAcceptorTest, DoesNotLetOutInPlainWhatMustBeEncrypted) {
  p2p::ProgressThread idle;
  const auto open = [&](const std::string& iface) {
    const SubscriberAddress own{.file = (folder.path() / "other").string()};
    const SubscriberAcceptor local(
        idle, log, {.address = own, .iface = iface, .key = key, .must_encrypt = true},
        [](os::Fd&) { return std::string(); });
  };
  open("127.0.0.1");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "other"));
  bool has_network = false;
  for (const auto& interface : p2p::interface_addresses()) has_network |= !interface.loopback;
  if (!has_network) GTEST_SKIP() << "this host has no network";
  try {
    open("auto");
    ADD_FAILURE() << "it was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::bad_config) << error.what();
  }
}

TEST(SubscriberAddress, IsAFileOrAnAddress) {
  EXPECT_EQ(parse_subscriber_address("./a:b").file, "./a:b");
  EXPECT_EQ(parse_subscriber_address("10.0.0.1:1").fixed.text(), "10.0.0.1:1");
  try {
    (void)parse_subscriber_address("10.0.0.1");
    ADD_FAILURE() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("WEFT_SUBSCRIBE_ADDR=\"10.0.0.1\": a port is missing"),
              std::string::npos)
        << error.what();
  }
}

TEST(SubscriberAddress, OfAFileIsWhatItSaysNow) {
  const weft::tests::TempFolder folder;
  const SubscriberAddress address{.file = (folder.path() / "f").string()};
  EXPECT_EQ(look_up(address).trouble,
            address.file + ": no publisher has written its address there yet");
  folder.write("f", "127.0.0.1:4711\n[::1]:4711\n");
  EXPECT_EQ(look_up(address).ips.size(), 2U);
  EXPECT_EQ(look_up(address).port, 4711);
  for (const char* wrong : {"nonsense\n", "localhost:4711\n", "127.0.0.1:99999\n"}) {
    folder.write("f", wrong);
    EXPECT_TRUE(look_up(address).ips.empty()) << wrong;
    EXPECT_FALSE(look_up(address).trouble.empty()) << wrong;
  }
}

TEST(SubscriberAddress, OfWhatIsNoFileIsToldWithItsPathAndAtOnce) {
  const weft::tests::TempFolder folder;
  const auto trouble_of = [&](const std::string& name) {
    return look_up({.file = (folder.path() / name).string()}).trouble;
  };
  const std::string begin = folder.path().string() + "/";
  std::filesystem::create_directory(folder.path() / "folder");
  EXPECT_EQ(trouble_of("folder"), begin + "folder: it is no regular file");
  ASSERT_EQ(::mkfifo((folder.path() / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(trouble_of("fifo"), begin + "fifo: it is no regular file");
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  EXPECT_EQ(trouble_of("loop"), begin + "loop: it is a symbolic link, which is not followed here");
  EXPECT_EQ(trouble_of(std::string(300, 'x')),
            begin + std::string(300, 'x') + ": File name too long");
}

TEST(SubscriberAddress, NeverTellsWhatAnotherFileSays) {
  const weft::tests::TempFolder folder;
  const std::string secret = "root:secret:19000:0:99999:7:::";
  folder.write("secret", secret + "\n127.0.0.1:4711\n");
  folder.write("lines", "127.0.0.1:4711\n" + secret + "\n");
  folder.write("long", std::string(1 << 15, 'x'));
  std::filesystem::create_symlink("secret", folder.path() / "link");
  std::filesystem::create_hard_link(folder.path() / "long", folder.path() / "second");
  const auto trouble_of = [&](const std::string& name) {
    const auto where = look_up({.file = (folder.path() / name).string()});
    EXPECT_TRUE(where.ips.empty()) << name;
    EXPECT_EQ(where.trouble.find("0:99999"), std::string::npos) << where.trouble;
    return where.trouble.substr(folder.path().string().size() + 1);
  };
  EXPECT_EQ(trouble_of("secret"),
            "secret: line 1, of 30 bytes, is no address as a publisher writes it");
  EXPECT_EQ(trouble_of("lines"),
            "lines: line 2, of 30 bytes, is no address as a publisher writes it");
  EXPECT_EQ(trouble_of("link"), "link: it is a symbolic link, which is not followed here");
  EXPECT_EQ(trouble_of("second"),
            "second: it has a second name, through which it may be another file");
  std::filesystem::remove(folder.path() / "second");
  EXPECT_EQ(trouble_of("long"), "long: it has more than 16384 bytes");
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown((folder.path() / "secret").c_str(), 4711, 4711), 0);
    EXPECT_EQ(trouble_of("secret"), "secret: it belongs to user 4711, this process is user 0's");
  }
}

TEST(SubscriberAddress, OfAFileMayHaveManyLines) {
  const weft::tests::TempFolder folder;
  std::string lines;
  for (int i = 1; i <= 100; ++i) lines += "10.0.0." + std::to_string(i) + ":29500\n";
  folder.write("f", lines);
  const auto where = look_up({.file = (folder.path() / "f").string()});
  EXPECT_EQ(where.ips.size(), 100U) << where.trouble;
  EXPECT_EQ(where.port, 29500);
}

TEST(AddressFile, GoesUnlessSomebodyElseHasReplacedIt) {
  const weft::tests::TempFolder folder;
  const std::string path = (folder.path() / "f").string();
  const auto ip = look_up(parse_subscriber_address("127.0.0.1:1")).ips;
  { const AddressFile file(path, ip, 4711); }
  EXPECT_FALSE(std::filesystem::exists(path));
  {
    const AddressFile first(path, ip, 4711);
    AddressFile second(path, ip, 4712);
    EXPECT_FALSE(first.has_replaced_another());
    EXPECT_TRUE(second.has_replaced_another());
    EXPECT_EQ(look_up({.file = path}).port, 4712);
    EXPECT_EQ(std::filesystem::status(path).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    const AddressFile moved(std::move(second));
    { const AddressFile gone = AddressFile(path, ip, 4713); }
    folder.write("f", "127.0.0.1:9\n");
  }
  EXPECT_TRUE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace weft::subscribe
