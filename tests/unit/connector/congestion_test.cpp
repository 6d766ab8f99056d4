// Which congestion control TCP connections get.
#include "p2p/transport/wireup/congestion.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <set>

#include "base/config.hpp"
#include "base/os/fd.hpp"

namespace weft::p2p {
namespace {

/// The chosen congestion control, and the log's words for it.
struct Choice {
  std::string name;
  std::string log;
};

Choice choose(std::string_view asked, const std::string& system,
              const std::set<std::string>& allowed) {
  testing::internal::CaptureStderr();
  Log log(Config(), "here", 0);  // users see it without a setting
  const CongestionControl control(asked, system,
                                  [&](const std::string& name) { return allowed.contains(name); });
  control.tell(log);
  return {control.name(), testing::internal::GetCapturedStderr()};
}

TEST(CongestionControls, AreTheSystemsUnlessThatPaces) {
  EXPECT_EQ(choose("auto", "cubic", {"cubic", "reno"}).name, "");
  EXPECT_EQ(choose("auto", "dctcp", {"cubic", "reno"}).name, "");
  EXPECT_EQ(choose("auto", "cubic", {"cubic", "reno"}).log, "");
  EXPECT_EQ(choose("", "cubic", {"cubic", "reno"}).log, "") << "an empty setting is no setting";
  EXPECT_EQ(choose("", "bbr", {"bbr", "cubic"}).name, "cubic");
  EXPECT_EQ(choose("auto", "bbr", {"bbr", "cubic", "reno"}).name, "cubic");
  EXPECT_EQ(choose("auto", "bbr2", {"bbr2", "reno"}).name, "reno");
  EXPECT_NE(
      choose("auto", "bbr", {"bbr", "reno"}).log.find("have reno in place of the system's bbr"),
      std::string::npos);
}

TEST(CongestionControls, OfAHostThatAllowsNoOtherStay) {
  const Choice choice = choose("auto", "bbr", {"bbr"});
  EXPECT_EQ(choice.name, "");
  EXPECT_NE(choice.log.find("no other is allowed"), std::string::npos) << choice.log;
  EXPECT_NE(choice.log.find("sysctl"), std::string::npos) << choice.log;
}

TEST(CongestionControls, ThatAreAskedForAreTakenIfTheyAreAllowed) {
  EXPECT_EQ(choose("reno", "cubic", {"cubic", "reno"}).name, "reno");
  EXPECT_EQ(choose("bbr", "bbr", {"bbr", "reno"}).name, "bbr");
  EXPECT_EQ(choose("system", "bbr", {"bbr", "reno"}).name, "");
  EXPECT_EQ(choose("system", "bbr", {"bbr", "reno"}).log, "");
  const Choice refused = choose("vegas", "cubic", {"cubic"});
  EXPECT_EQ(refused.name, "");
  EXPECT_NE(refused.log.find("WEFT_TCP_CONGESTION=\"vegas\""), std::string::npos) << refused.log;
  EXPECT_NE(refused.log.find("connections have cubic"), std::string::npos) << refused.log;
}

TEST(CongestionControls, AreInheritedByWhatAListenerAccepts) {
  const CongestionControl reno("reno");
  if (reno.name().empty()) GTEST_SKIP() << "this kernel has no reno for sockets";
  const auto name_of = [](const os::Fd& socket) {
    std::array<char, 16> name{};
    socklen_t size = name.size();
    EXPECT_EQ(::getsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &size), 0);
    return std::string(name.data());
  };
  const os::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const os::Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  reno.apply(listener.get());
  reno.apply(client.get());
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener.get(), at, size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), at, &size), 0);
  ASSERT_EQ(::connect(client.get(), at, size), 0);
  const os::Fd accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_EQ(name_of(client), "reno");
  EXPECT_EQ(name_of(accepted), "reno");
}

}  // namespace
}  // namespace weft::p2p
