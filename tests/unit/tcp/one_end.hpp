// One end of a path by several rails; the test is the other end and says what it likes, when it
// likes.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "p2p/progress/progress_thread.hpp"
#include "p2p/transport/control_message.hpp"
#include "p2p/transport/fabric.hpp"
#include "p2p/transport/tcp/tcp_channel.hpp"
#include "p2p/transport/wireup/connector.hpp"

namespace weft::p2p::tcp {

inline constexpr int kPeer = 1;

struct NoEvents final : FabricEvents, ConnectorEvents {
  void connected(int, std::unique_ptr<Channel>) override {}
  void reachable(int, std::unique_ptr<Channel>) override {}
  void in_use(int) override {}
  void message(int, std::span<const std::byte>) override {}
  void lost(int, const Status&) override {}
  void broken(int) override {}
  void short_of(const Error&) override {}
  void met(int) override {}
  void said(int, std::span<const std::byte>) override {}
  void ended(int, bool, const std::string&) override {}
};

/// A channel whose progress thread is the test.
class OneEnd {
 public:
  explicit OneEnd(std::size_t rails, bool one_by_one = false) {
    if (one_by_one) {
      others_.resize(rails);
      channel.open(rails, false);
      return;
    }
    std::vector<Pipe> pipes;
    for (std::size_t i = 0; i < rails; ++i) {
      auto [own, other] = pair();
      pipes.push_back(std::move(own));
      others_.push_back(std::move(other));
    }
    channel.open(std::move(pipes), false);
  }

  void say_message(std::size_t rail, MessageType type) {
    std::array<std::byte, sizeof type> text{};
    std::memcpy(text.data(), &type, sizeof type);
    const Head head{.kind = Kind::message, .bytes = text.size()};
    ASSERT_EQ(::send(others_[rail].get(), &head, sizeof head, MSG_NOSIGNAL),
              static_cast<ssize_t>(sizeof head));
    ASSERT_EQ(::send(others_[rail].get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
    turn();
  }
  void say(std::size_t rail, const Head& head) {
    ASSERT_EQ(::send(others_[rail].get(), &head, sizeof head, MSG_NOSIGNAL),
              static_cast<ssize_t>(sizeof head));
    turn();
  }
  void cut(std::size_t rail) {
    close(rail);
    turn();
  }
  /// As cut(), but nobody looks yet.
  void close(std::size_t rail) { others_[rail] = {}; }
  /// The other end has connected it anew.
  void call(std::size_t rail) {
    auto [own, other] = pair();
    others_[rail] = std::move(other);
    EXPECT_EQ(channel.renew_rail(rail, std::move(own), false).kind, RailEvent::Kind::none);
    turn();
  }
  /// As call(), by a connection that has addresses.
  void call_over_ip(std::size_t rail) {
    auto [own, other] = tcp_pair();
    others_[rail] = std::move(other);
    EXPECT_EQ(channel.renew_rail(rail, std::move(own), false).kind, RailEvent::Kind::none);
    turn();
  }
  /// This end has connected it.
  void answer(std::size_t rail) {
    auto [own, other] = pair();
    others_[rail] = std::move(other);
    if (const RailEvent event = channel.renew_rail(rail, std::move(own), true);
        event.kind != RailEvent::Kind::none)
      events.push_back(event.kind);
    turn();
  }
  void post(char name) {
    const auto text = static_cast<std::byte>(name);
    channel.send(std::span(&text, 1));
  }
  /// The records that have come by the rail since, one letter each; a message is its own.
  std::string hear(std::size_t rail) {
    turn();
    std::string heard;
    for (Head head; ::recv(others_[rail].get(), &head, sizeof head, MSG_DONTWAIT) == sizeof head;) {
      heads.push_back(head);
      if (head.kind == Kind::rail_up)
        heard += "U" + std::to_string(head.index);
      else if (head.kind == Kind::rail_down)
        heard += "D" + std::to_string(head.index);
      else if (head.kind == Kind::ack_wanted)
        heard += "?";
      else if (head.kind == Kind::message)
        heard += letter(rail, head.bytes);
      else if (head.kind != Kind::taken && head.kind != Kind::ack)
        heard += "!";
    }
    return heard;
  }
  /// The text of `broken`; empty if the path is good.
  std::string broke() const { return broken.ok() ? "" : broken.text(); }
  void turn() {
    sockets_.drain();
    while (!tasks_.empty()) {
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      if (const RailEvent event = task(); event.kind != RailEvent::Kind::none)
        events.push_back(event.kind);
      sockets_.drain();
    }
  }

  std::vector<RailEvent::Kind> events;
  std::vector<Head> heads;  ///< all that were heard
  Status broken;            ///< why the path is no good

 private:
  static std::pair<Pipe, os::Fd> pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    return {Pipe(os::Fd(ends[0])), os::Fd(ends[1])};
  }
  static std::pair<Pipe, os::Fd> tcp_pair() {
    const os::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    EXPECT_EQ(::bind(listener.get(), address, size), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), address, &size), 0);
    os::Fd other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(other.get(), address, size), 0);
    return {Pipe(os::Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC))),
            std::move(other)};
  }
  std::string letter(std::size_t rail, std::size_t bytes) {
    std::string text(bytes, ' ');
    EXPECT_EQ(::recv(others_[rail].get(), text.data(), bytes, MSG_DONTWAIT),
              static_cast<ssize_t>(bytes));
    return text;
  }

  const Config config_ = Config().with(Setting::log, "off");
  ProgressThread thread_;
  LocalRank local_{{.rank = 0,
                    .size = 2,
                    .config = config_,
                    .log = std::make_shared<Log>(config_, "here", 0),
                    .mapper = std::make_shared<SegmentMapper>(),
                    .progress = &thread_,
                    .sleeper = nullptr}};
  NoEvents none_;
  Connector connector_{local_, thread_, none_, config_};
  FirstUse first_use_{local_, none_, connector_, 2};
  Sockets sockets_{thread_};
  std::deque<std::function<RailEvent()>> tasks_;
  std::vector<os::Fd> others_;
  TcpRank rank_{.local = local_,
                .sockets = sockets_,
                .broke = [this](int, bool, const Status& why) { broken = why; },
                .has_message = [](int) {},
                .rail_broke =
                    [this](int, std::size_t rail, std::uint32_t connection, const Status& why) {
                      tasks_.emplace_back([=, this] {
                        return channel.lose_rail(rail, connection, why.detail().message);
                      });
                    },
                .rail_said =
                    [this](int, const Head& head) {
                      tasks_.emplace_back([=, this] { return channel.on_rail_said(head); });
                    },
                .first_use = first_use_};

 public:
  TcpChannel channel{rank_, kPeer};
};

inline Head down(std::uint32_t rail, std::uint32_t connection, std::uint64_t taken) {
  return {.kind = Kind::rail_down, .index = rail, .key = connection, .sequence = taken};
}
inline Head up(std::uint32_t rail, std::uint32_t connection, std::uint64_t taken) {
  return {
      .kind = Kind::rail_up, .flags = kTell, .index = rail, .key = connection, .sequence = taken};
}

using Events = std::vector<RailEvent::Kind>;

}  // namespace weft::p2p::tcp
