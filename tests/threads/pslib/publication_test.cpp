// Readers that are no ranks get whole versions, hold no other reader up, and see how the publisher
// ends.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <thread>

#include "pslib/publication/wire.hpp"
#include "runtime/bootstrap/token/token_file.hpp"
#include "runtime/subscribe/subscriber_connect.hpp"
#include "tests/seeds.hpp"
#include "tests/support/gpu_memory.hpp"
#include "tests/threads/pslib/subscribers.hpp"

namespace weft::tests {
namespace {

using pslib::Publication;
using pslib::PublicationOptions;
using pslib::Publisher;
using pslib::Reader;
using std::chrono::milliseconds;

/// A world of one rank that publishes.
class Subscribers : public testing::Test {
 public:
  Publication publish(const PublicationOptions& options = {}) {
    return publisher->publication("weights", Weights::specs(), options);
  }
  Reader join() const { return Reader::join("weights", place.reader(), soon_enough()); }
  static Deadline soon_enough() { return Deadline::after(std::chrono::seconds(20)); }

  SubscriberAddressFile place;
  InProcessJob job{1, settings()};
  World world = job.join(0);
  std::unique_ptr<Publisher> publisher = std::make_unique<Publisher>(world, place.publisher());
  Weights weights;
};

TEST_F(Subscribers, TakeTheNewestVersionAndItsStep) {
  Publication publication = publish();
  Reader reader = join();
  EXPECT_EQ(reader.specs().size(), 2U);
  EXPECT_EQ(reader.specs()[0].shape, Weights::specs()[0].shape);
  EXPECT_EQ(thrown_by([&] { (void)reader.tensor("table"); }).code, Code::bad_argument);
  for (const int step : {1, 2, 3}) {
    weights.fill(static_cast<float>(step));
    publication.publish(weights.tensors(), 100U * static_cast<unsigned>(step)).or_throw();
  }
  reader.pull_latest().or_throw();
  EXPECT_EQ(reader.version(), 3U);
  EXPECT_EQ(reader.step(), 300U);
  EXPECT_EQ(only_value(reader), 3.0F);
  reader.pull_latest().or_throw();
  EXPECT_EQ(reader.version(), 3U);
  EXPECT_EQ(reader.statistics().full_taken, 1U);
  EXPECT_TRUE(contains(thrown_by([&] { (void)reader.tensor("tabel"); }).hint, "table, vector"));
}

TEST_F(Subscribers, WaitForAVersionUntilTheirDeadlineAndGoOnFromThere) {
  Publication publication = publish();
  Reader reader = join();
  const Status early = reader.pull_latest(Deadline::after(milliseconds(20)));
  EXPECT_TRUE(tells(early, Code::timeout, {"nothing was published yet"}));
  weights.fill(1);
  publication.publish(weights.tensors()).or_throw();
  reader.pull_latest().or_throw();
  EXPECT_EQ(only_value(reader), 1.0F);
  const Status late = reader.pull_newer(Deadline::after(milliseconds(20)));
  EXPECT_TRUE(contains(late.text(), "nothing newer than version 1 came")) << late.text();
  // A pull that does not wait ends the wait that is under way.
  reader.pull_latest().or_throw();
  EXPECT_EQ(reader.version(), 1U);
  (void)reader.pull_newer(Deadline::after(milliseconds(1)));
  std::thread trainer([&] {
    weights.fill(2);
    publication.publish(weights.tensors()).or_throw();
  });
  reader.pull_newer().or_throw();
  trainer.join();
  EXPECT_EQ(reader.version(), 2U);
  EXPECT_EQ(only_value(reader), 2.0F);
}

TEST_F(Subscribers, GetChangedRowsAloneAndWhatTheyMakeIsTheWholeVersion) {
  for (std::uint64_t seed = 1; seed <= seeds(20); ++seed) {
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    Publication publication =
        publish({.buffers = 2 + static_cast<int>(seed % 3), .history = static_cast<int>(seed % 5)});
    Reader twofold = join();
    Reader in_place = join();
    Weights own;
    in_place.receive_into(own.tensors());
    for (int version = 1; version <= 30; ++version) {
      for (auto changes = random() % 8; changes > 0; --changes)
        weights.table[random() % weights.table.size()] = static_cast<float>(random() % 1000);
      if (random() % 4 == 0) weights.vector[random() % weights.vector.size()] += 1;
      if (random() % 10 == 0) weights.fill(static_cast<float>(version));
      publication.publish(weights.tensors()).or_throw();
      for (Reader* reader : {&twofold, &in_place}) {
        if (random() % 2 == 0) continue;
        const std::uint64_t before = reader->version();
        reader->pull_latest().or_throw();
        ASSERT_GT(reader->version(), before) << "seed " << seed;
        ASSERT_TRUE(reader->whole());
        const auto table = reader->tensor("table").as<float>();
        const auto vector = reader->tensor("vector").as<float>();
        ASSERT_TRUE(std::ranges::equal(table, weights.table)) << "seed " << seed;
        ASSERT_TRUE(std::ranges::equal(vector, weights.vector)) << "seed " << seed;
      }
    }
    EXPECT_EQ(in_place.tensor("table").data(), reinterpret_cast<std::byte*>(own.table.data()));
    // The publisher counts an answer when its last byte has gone: the reader may have it before.
    const std::uint64_t received =
        twofold.statistics().bytes_received + in_place.statistics().bytes_received;
    pslib::PublicationStatistics counted;
    EXPECT_TRUE(soon([&] {
      counted = publication.statistics();
      return counted.full_bytes_sent + counted.delta_bytes_sent == received;
    }));
    EXPECT_EQ(counted.full_bytes_sent, counted.full_sent * counted.full_bytes);
    if (seed % 5 > 1) {
      EXPECT_GT(counted.deltas_sent, 0U) << "seed " << seed;
      EXPECT_LT(counted.delta_bytes_sent / counted.deltas_sent, counted.full_bytes * 3 / 4 + 1);
    }
  }
}

TEST_F(Subscribers, NeverSeeAVersionTornOrMixedNorOneGoBack) {
  // More bytes than sockets hold, so that versions are overwritten while they are being sent.
  const std::vector<pslib::PublishedTensor> specs = {
      {.name = "a", .dtype = DType::f32, .shape = {1 << 20}},
      {.name = "b", .dtype = DType::f32, .shape = {512, 512}}};
  Publication publication = publisher->publication("weights", specs, {.buffers = 3});
  std::vector<float> a(1 << 20);
  std::vector<float> b(512 * 512);
  const std::vector<Tensor> tensors = {Tensor::wrap(a.data(), DType::f32, specs[0].shape),
                                       Tensor::wrap(b.data(), DType::f32, specs[1].shape)};
  constexpr int kReaders = 3;
  constexpr std::uint64_t kPulls = seeds(30);
  std::atomic<int> reading{kReaders};
  std::vector<std::thread> readers;
  for (int i = 0; i < kReaders; ++i)
    readers.emplace_back([&] {
      Reader reader = join();
      std::uint64_t before = 0;
      for (std::uint64_t pull = 0; pull < kPulls; ++pull) {
        const Status status = reader.pull_newer(soon_enough());
        ASSERT_TRUE(status.ok()) << status.text();
        EXPECT_GT(reader.version(), before);
        before = reader.version();
        EXPECT_EQ(only_value(reader), static_cast<float>(before));
      }
      --reading;
    });
  const auto end = soon_enough();
  for (int version = 1; reading > 0 && !end.passed(); ++version) {
    a.assign(a.size(), static_cast<float>(version));
    b.assign(b.size(), static_cast<float>(version));
    publication.publish(tensors).or_throw();
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(reading, 0);
}

TEST_F(Subscribers, AreRefusedNamesOfFilesWithANul) {
  const std::string nul(1, '\0');
  const auto code_of = [&](const std::string& address, const std::string& token) {
    return thrown_by([&] {
             (void)Reader::join("weights", {.address = address, .token_file = token},
                                soon_enough());
           })
        .code;
  };
  EXPECT_EQ(code_of(place.address() + nul, place.token()), Code::bad_argument);
  EXPECT_EQ(code_of(place.address(), place.token() + nul + "x"), Code::bad_argument);
}

TEST_F(Subscribers, DoNotWaitForADeadlineLongPast) {
  Publication publication = publish();
  Reader reader = join();
  for (const Deadline past : {Deadline::at(Clock::time_point::min()), Deadline::at({}),
                              Deadline::after(std::chrono::nanoseconds::min())}) {
    EXPECT_EQ(thrown_by([&] { (void)Reader::join("others", place.reader(), past); }).code,
              Code::timeout);
    EXPECT_EQ(reader.pull_latest(past).code(), Code::timeout);
    EXPECT_EQ(reader.pull_newer(past).code(), Code::timeout);
  }
  weights.fill(1);
  publication.publish(weights.tensors()).or_throw();
  reader.pull_newer(Deadline::at(Clock::time_point::max())).or_throw();
  EXPECT_EQ(only_value(reader), 1.0F);
}

TEST_F(Subscribers, ThatStopHoldUpNeitherThePublisherNorTheOthers) {
  const std::vector<pslib::PublishedTensor> specs = {
      {.name = "a", .dtype = DType::f32, .shape = {4 << 20}}};
  Publication publication = publisher->publication("weights", specs, {.buffers = 3});
  std::vector<float> a(4 << 20);
  const std::vector<Tensor> tensors = {Tensor::wrap(a.data(), DType::f32, specs[0].shape)};
  // A subscriber that asks and never reads.
  const os::Fd stopped = subscribe::call(
      subscribe::parse_subscriber_address(place.address()),
      bootstrap::read_token(place.token(), p2p::TokenUse::subscribers), soon_enough());
  const auto say = [&](const pslib::wire::Ask& ask) {
    EXPECT_EQ(::send(stopped.get(), &ask, sizeof ask, MSG_NOSIGNAL),
              static_cast<ssize_t>(sizeof ask));
  };
  say(pslib::wire::attach("weights"));
  EXPECT_TRUE(soon([&] { return publication.statistics().subscribers == 1; }));
  say({.kind = pslib::wire::Ask::Kind::wait});
  Reader reader = join();
  for (int version = 1; version <= 6; ++version) {
    a.assign(a.size(), static_cast<float>(version));
    publication.publish(tensors).or_throw();
    reader.pull_newer(soon_enough()).or_throw();
    EXPECT_EQ(only_value(reader), static_cast<float>(version));
  }
  EXPECT_TRUE(soon([&] { return publication.statistics().full_sent == 6; }));
}

TEST_F(Subscribers, AreToldWhenThePublicationIsClosedAndMayReadTheNextOfThatName) {
  std::optional<Publication> publication(publish());
  weights.fill(1);
  publication->publish(weights.tensors()).or_throw();
  EXPECT_EQ(thrown_by([&] { (void)publish(); }).code, Code::duplicate_name);
  Reader behind = join();
  Reader up_to_date = join();
  up_to_date.pull_latest().or_throw();
  publication.reset();
  EXPECT_EQ(up_to_date.pull_newer().code(), Code::closed);
  EXPECT_EQ(up_to_date.pull_latest().code(), Code::closed);
  // A reader that has not read the last version still gets it.
  behind.pull_latest().or_throw();
  EXPECT_EQ(only_value(behind), 1.0F);
  EXPECT_EQ(behind.pull_latest().code(), Code::closed);
  Publication next = publish();
  Reader reader = join();
  weights.fill(2);
  next.publish(weights.tensors()).or_throw();
  reader.pull_latest().or_throw();
  EXPECT_EQ(only_value(reader), 2.0F);
}

TEST_F(Subscribers, HaveTheLastVersionWhenThePublisherLeavesInOrder) {
  Publication publication = publish();
  Reader reader = join();
  weights.fill(1);
  publication.publish(weights.tensors()).or_throw();
  const Status early = publisher->leave(Deadline::after(milliseconds(20)));
  EXPECT_TRUE(tells(early, Code::timeout, {"1 subscriber(s)"}));
  std::thread subscriber([&] {
    EXPECT_TRUE(reader.pull_latest().ok());
    EXPECT_EQ(only_value(reader), 1.0F);
    const Status end = reader.pull_newer();
    EXPECT_EQ(end.code(), Code::peer_left) << end.text();
  });
  EXPECT_TRUE(publisher->leave().ok());
  subscriber.join();
  const auto refused = thrown_by(
      [&] { (void)Reader::join("weights", place.reader(), Deadline::after(milliseconds(200))); });
  EXPECT_TRUE(contains(refused.message, "it is leaving")) << refused.text();
}

TEST_F(Subscribers, ThatHaveCalledMaySubscribeThoughThePublisherLeaves) {
  Publication publication = publish();
  weights.fill(1);
  publication.publish(weights.tensors()).or_throw();
  const auto call = [&] {
    return subscribe::call(subscribe::parse_subscriber_address(place.address()),
                           bootstrap::read_token(place.token(), p2p::TokenUse::subscribers),
                           soon_enough());
  };
  const os::Fd early = call();
  const os::Fd mistaken = call();
  EXPECT_TRUE(soon([&] { return publisher->subscribers() == 2; }));
  std::thread leaver([&] { EXPECT_TRUE(publisher->leave().ok()); });
  std::this_thread::sleep_for(milliseconds(50));
  using pslib::wire::Ask;
  using pslib::wire::Head;
  const auto ask = [&](const os::Fd& socket, const Ask& what) {
    EXPECT_EQ(::send(socket.get(), &what, sizeof what, MSG_NOSIGNAL),
              static_cast<ssize_t>(sizeof what));
    const auto read = [&](std::span<std::byte> to) {
      std::size_t got = 0;
      EXPECT_TRUE(soon([&] {
        const ssize_t more = ::recv(socket.get(), to.data() + got, to.size() - got, MSG_DONTWAIT);
        got += static_cast<std::size_t>(std::max<ssize_t>(more, 0));
        return got == to.size();
      }));
    };
    Head head;
    read(std::as_writable_bytes(std::span(&head, 1)));
    std::vector<std::byte> rest(head.kind == Head::Kind::description ? head.bytes : 0);
    read(rest);
    return head;
  };
  EXPECT_EQ(ask(early, pslib::wire::attach("weights")).kind, Head::Kind::description);
  const Head values = ask(early, {.kind = Ask::Kind::pull});
  EXPECT_EQ(values.kind, Head::Kind::values);
  EXPECT_EQ(values.version, 1U);
  const Head none = ask(mistaken, pslib::wire::attach("wieghts"));
  EXPECT_EQ(none.kind, Head::Kind::end);
  EXPECT_EQ(none.count, static_cast<std::uint32_t>(Head::End::left));
  ::shutdown(early.get(), SHUT_RDWR);
  leaver.join();
}

TEST_F(Subscribers, AreTurnedOutWhenThePublisherGoesAtOnce) {
  Publication publication = publish();
  Reader reader = join();
  publisher.reset();
  const Status status = reader.pull_latest();
  EXPECT_EQ(status.code(), Code::peer_left) << status.text();
  EXPECT_FALSE(std::filesystem::exists(place.address()));
  EXPECT_EQ(thrown_by([&] {
              (void)Reader::join("weights", place.reader(), Deadline::after(milliseconds(20)));
            }).code,
            Code::timeout);
}

TEST_F(Subscribers, AreRefusedWithAnotherTokenOrWhenThereAreTooMany) {
  Publication publication = publish();
  auto foreign = place.reader();
  foreign.token_file = place.write_token("other", std::string(32, 'x'));
  const auto client = thrown_by([&] { (void)Reader::join("weights", foreign, soon_enough()); });
  EXPECT_EQ(client.code, Code::bootstrap);
  EXPECT_TRUE(contains(client.hint, "WEFT_SUBSCRIBE_TOKEN_FILE")) << client.text();
  EXPECT_TRUE(soon([&] { return publisher->rejected_connections() == 1; }));
  std::vector<Reader> all;
  for (int i = 0; i < 8; ++i) all.push_back(join());
  const auto one_more = thrown_by([&] { (void)join(); });
  EXPECT_TRUE(contains(one_more.message, "no more subscribers: 8 are connected"))
      << one_more.text();
  all.pop_back();
  EXPECT_TRUE(soon([&] { return publisher->subscribers() == 7; }));
  all.push_back(join());
}

TEST_F(Subscribers, AreToldWhatThereIsWhenTheyAskForWhatThereIsNot) {
  Publication publication = publish();
  // On a busy machine the connection may take long to be accepted at all.
  ErrorDetail error;
  for (auto patience = milliseconds(100);
       patience < milliseconds(20'000) && !contains(error.message, "its publications: weights");
       patience *= 2)
    error = thrown_by(
        [&] { (void)Reader::join("wieghts", place.reader(), Deadline::after(patience)); });
  EXPECT_EQ(error.code, Code::timeout);
  EXPECT_TRUE(contains(error.message, "its publications: weights")) << error.text();
}

TEST_F(Subscribers, ThatSayWhatMakesNoSenseAreTurnedOut) {
  Publication publication = publish();
  Reader reader = join();
  using pslib::wire::Ask;
  for (const Ask& ask : {Ask{.kind = Ask::Kind::pull}, Ask{.kind = Ask::Kind::attach},
                         Ask{.kind = static_cast<Ask::Kind>(77)}}) {
    const os::Fd subscriber = subscribe::call(
        subscribe::parse_subscriber_address(place.address()),
        bootstrap::read_token(place.token(), p2p::TokenUse::subscribers), soon_enough());
    EXPECT_EQ(::send(subscriber.get(), &ask, sizeof ask, MSG_NOSIGNAL),
              static_cast<ssize_t>(sizeof ask));
    EXPECT_TRUE(soon([&] {
      std::byte one;
      return ::recv(subscriber.get(), &one, 1, MSG_DONTWAIT) == 0;
    }));
  }
  weights.fill(1);
  publication.publish(weights.tensors()).or_throw();
  reader.pull_latest().or_throw();
}

TEST_F(Subscribers, NeedTensorsOfThePublicationsOwnKind) {
  Publication publication = publish();
  auto tensors = weights.tensors();
  std::swap(tensors[0], tensors[1]);
  const Status status = publication.publish(tensors);
  EXPECT_TRUE(tells(status, Code::mismatch, {"'table'"}));
  EXPECT_EQ(publication.version(), 0U);
  Reader reader = join();
  EXPECT_EQ(thrown_by([&] { reader.receive_into(tensors); }).code, Code::mismatch);
  EXPECT_EQ(thrown_by([&] { (void)publisher->publication("none", {}); }).code, Code::bad_argument);
  const ErrorDetail no_type = thrown_by([&] {
    (void)publisher->publication("odd", {{"a", static_cast<DType>(99), {8}}});
  });
  EXPECT_EQ(no_type.code, Code::bad_argument);
  EXPECT_TRUE(contains(no_type.text(), "99 does not exist")) << no_type.text();
}

TEST_F(Subscribers, NeedTensorsWithMemory) {
  Publication publication = publish();
  auto tensors = weights.tensors();
  tensors[1] = Tensor::wrap(nullptr, tensors[1].dtype(), tensors[1].shape());
  const Status status = publication.publish(tensors);
  EXPECT_EQ(status.code(), Code::bad_argument);
  EXPECT_TRUE(contains(status.text(), "no memory")) << status.text();
  EXPECT_EQ(publication.version(), 0U);
  Reader reader = join();
  const ErrorDetail refused = thrown_by([&] { reader.receive_into(tensors); });
  EXPECT_EQ(refused.code, Code::bad_argument);
  EXPECT_TRUE(contains(refused.text(), "no memory")) << refused.text();

  const GpuMemory gpu;
  tensors[1] = gpu.tensor(tensors[1].shape(), tensors[1].dtype());
  EXPECT_TRUE(tells(publication.publish(tensors), Code::bad_argument, {"GPU 3"}));
  EXPECT_TRUE(
      tells(thrown_by([&] { reader.receive_into(tensors); }), Code::bad_argument, {"GPU 3"}));
}

}  // namespace
}  // namespace weft::tests
