// A hostile subscriber costs neither the other subscribers nor the publisher anything.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "pslib/publication/wire.hpp"
#include "runtime/bootstrap/token/token_file.hpp"
#include "runtime/subscribe/subscriber_connect.hpp"
#include "tests/threads/pslib/subscribers.hpp"

namespace weft::tests {
namespace {

using pslib::Publication;
using pslib::Publisher;
using pslib::Reader;
using pslib::wire::Ask;

/// A world of one rank that publishes, and a subscriber that sends arbitrary bytes.
class HostileSubscribers : public testing::Test {
 public:
  os::Fd let_in() const {
    return subscribe::call(subscribe::parse_subscriber_address(place.address()),
                           bootstrap::read_token(place.token(), p2p::TokenUse::subscribers),
                           soon_enough());
  }
  static bool say(const os::Fd& subscriber, const std::vector<Ask>& asks) {
    return ::send(subscriber.get(), asks.data(), asks.size() * sizeof(Ask), MSG_NOSIGNAL) > 0;
  }
  static Deadline soon_enough() { return Deadline::after(std::chrono::seconds(20)); }
  void publish(Publication& publication, float value) {
    weights.fill(value);
    publication.publish(weights.tensors()).or_throw();
  }

  SubscriberAddressFile place;
  InProcessJob job{1, settings()};
  World world = job.join(0);
  std::unique_ptr<Publisher> publisher = std::make_unique<Publisher>(world, place.publisher());
  Weights weights;
};

TEST_F(HostileSubscribers, ThatHurryWithoutHavingAskedAreTurnedOut) {
  Publication publication = publisher->publication("weights", Weights::specs());
  for (const bool waits : {false, true}) {
    const os::Fd subscriber = let_in();
    std::vector<Ask> asks = {pslib::wire::attach("weights")};
    EXPECT_TRUE(say(subscriber, asks));
    EXPECT_TRUE(soon([&] { return publication.statistics().subscribers == 1; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the description is out
    asks = {Ask{.kind = Ask::Kind::hurry}};
    if (waits) asks = {Ask{.kind = Ask::Kind::wait}, asks[0], asks[0]};
    EXPECT_TRUE(say(subscriber, asks));
    EXPECT_TRUE(soon([&] { return publication.statistics().subscribers == 0; })) << waits;
  }
}

TEST_F(HostileSubscribers, ThatTalkWithoutEndHoldUpNeitherTheOthersNorLeaving) {
  Publication publication = publisher->publication("weights", Weights::specs());
  publish(publication, 1);
  std::atomic<bool> stopping{false};
  std::vector<std::thread> hostile;
  for (int i = 0; i < 2; ++i)
    hostile.emplace_back([&, i] {
      // The first subscriber sends `hurry` without end; the second asks as fast as it can, which is
      // allowed.
      std::vector<Ask> asks(64, Ask{.kind = Ask::Kind::hurry});
      std::vector<std::byte> unread(1 << 20);
      while (!stopping) try {
          const os::Fd subscriber = let_in();
          (void)say(subscriber, {pslib::wire::attach("weights")});
          if (i == 1)
            for (std::size_t k = 0; k < asks.size(); k += 2) asks[k] = {.kind = Ask::Kind::wait};
          while (!stopping && say(subscriber, asks))
            while (::recv(subscriber.get(), unread.data(), unread.size(), MSG_DONTWAIT) > 0) {
            }
        } catch (const Error&) {
          continue;
        }
    });
  for (int version = 2; version <= 5; ++version) {
    const auto start = Clock::now();
    publish(publication, static_cast<float>(version));
    Reader reader = Reader::join("weights", place.reader(), soon_enough());
    reader.pull_latest(soon_enough()).or_throw();
    EXPECT_EQ(only_value(reader), static_cast<float>(version));
    EXPECT_LE(Clock::now() - start, std::chrono::seconds(2));
  }
  const auto start = Clock::now();
  (void)publisher->leave(Deadline::after(std::chrono::milliseconds(500)));
  EXPECT_LE(Clock::now() - start, std::chrono::milliseconds(1500));
  stopping = true;
  for (std::thread& subscriber : hostile) subscriber.join();
}

/// Bytes of memory that no file backs.
std::size_t anonymous_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::stoul(line.substr(8)) << 10U;
  return 0;
}

TEST_F(HostileSubscribers, DoNotKeepClosedPublicationsInMemoryNorDoesThePublisher) {
  constexpr std::int64_t kFloats = 1 << 18;  // 1 MiB
  std::vector<float> values(kFloats, 1.0F);
  const Tensor tensor = Tensor::wrap(values.data(), DType::f32, {kFloats});
  const std::vector<pslib::PublishedTensor> specs = {
      {.name = "a", .dtype = DType::f32, .shape = {kFloats}}};
  const std::size_t before = anonymous_memory();
  for (int i = 0; i < 200; ++i) {
    Publication publication = publisher->publication("of step " + std::to_string(i), specs);
    publication.publish(std::span(&tensor, 1)).or_throw();
  }
  EXPECT_TRUE(soon([&] { return anonymous_memory() < before + (32U << 20); }))
      << ((anonymous_memory() - before) >> 20U) << " MiB are left";
}

}  // namespace
}  // namespace weft::tests
