// Messages against a model of matching, under everything that a fabric may do: puts that come late
// and in pieces, full queues, pauses, ranks that die. A seed decides all of it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "p2p/transport/sim/random.hpp"
#include "tests/pattern.hpp"
#include "tests/sim/fresh_seeds.hpp"
#include "weft/message.hpp"

namespace weft::tests {
namespace {

using p2p::sim::Random;

constexpr std::uint64_t kNever = 999;        // a tag that no rank sends
constexpr std::uint64_t kForAny = 1U << 7U;  // of messages received from any source
constexpr Tag kAnyOfThose{kForAny, kForAny};
constexpr Tag kAnyOfTheOthers{0, kForAny};
constexpr std::int64_t kLargest = 9000;

struct Message {
  std::uint64_t tag = 0;
  std::int64_t bytes = 0;
  std::uint64_t pattern = 0;
};

/// The messages that `from` sends to `to`, in order: both ends derive them from the seed.
std::vector<Message> messages_of(std::uint64_t seed, int from, int to) {
  Random random(mix(seed ^ pattern_of(from, to, 77)));
  std::vector<Message> messages;
  const auto add = [&](std::uint64_t tag) {
    const std::uint64_t kind = random.below(10);
    const std::uint64_t most = kind < 6 ? 120 : kind < 8 ? 4200 : kLargest;
    messages.push_back({tag, static_cast<std::int64_t>(random.below(most + 1)),
                        pattern_of(from, to, messages.size())});
  };
  for (std::uint64_t i = random.below(40); i > 0; --i) add(random.below(4));
  for (std::uint64_t i = random.below(12); i > 0; --i) add(kForAny + random.below(3));
  return messages;
}

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

bool is_loss(const Status& status) {
  return status.code() == Code::peer_failed || status.code() == Code::peer_left ||
         status.code() == Code::closed;
}

/// One rank's random program, and the model's expectation.
class Player {
 public:
  Player(World& world, std::uint64_t seed, bool losses)
      : world_(world),
        messages_(world),
        losses_(losses),
        random_(mix(seed ^ static_cast<std::uint64_t>(world.rank() + 1))),
        sources_(static_cast<std::size_t>(world.size())),
        next_to_(sources_.size(), 0) {
    for (int rank = 0; rank < world.size(); ++rank) {
      to_.push_back(messages_of(seed, world.rank(), rank));
      Source& source = sources_[static_cast<std::size_t>(rank)];
      source.sent = messages_of(seed, rank, world.rank());
      source.taken.assign(source.sent.size(), false);
      for (const Message& message : source.sent)
        ++(message.tag < kForAny ? source.left : source.left_for_any);
    }
  }

  void play() {
    for (bool moved = true; moved;) {
      moved = send_one();
      moved = receive_one() || moved;
      if (random_.chance(0.05)) cancel_one();
    }
    for (int rank = 0; rank < world_.size(); ++rank) finish(rank, 0);
    receive_from_any();
    for (MessageRequest& request : sending_) {
      const auto sent = request.wait();
      // With losses, a rank may have given up before it received this message.
      if (!losses_ || sent.code() != Code::timeout) fine(sent.status(), "send");
    }
  }

 private:
  struct Posted {
    MessageRequest request;
    Tensor into;
    std::size_t expected = 0;  ///< which of the source's messages
  };
  struct Source {
    std::vector<Message> sent;
    std::vector<bool> taken;
    std::size_t left = 0;
    std::size_t left_for_any = 0;
    std::vector<Posted> posted;
    bool lost = false;
  };

  bool fine(const Status& status, const std::string& what) {
    if (status.ok()) return true;
    expect(losses_ && is_loss(status), what + ": " + status.text());
    return false;
  }

  bool send_one() {
    const int first = static_cast<int>(random_.below(static_cast<std::uint64_t>(world_.size())));
    for (int i = 0; i < world_.size(); ++i) {
      const int to = (first + i) % world_.size();
      auto& next = next_to_[static_cast<std::size_t>(to)];
      const auto& list = to_[static_cast<std::size_t>(to)];
      if (next == list.size()) continue;
      const Message& message = list[next++];
      tensors_.push_back(world_.allocate(DType::u8, {message.bytes}));
      fill(tensors_.back(), message.pattern);
      sending_.push_back(messages_.isend(to, message.tag, tensors_.back()));
      return true;
    }
    return false;
  }

  /// The model: a receive gets the first message sent that it takes and that none before it got.
  static std::size_t first_taken_by(const Source& source, const Tag& tag) {
    std::size_t i = 0;
    while (source.taken[i] || !tag.takes(source.sent[i].tag)) ++i;
    return i;
  }

  bool receive_one() {
    const int from = static_cast<int>(random_.below(static_cast<std::uint64_t>(world_.size())));
    Source& source = sources_[static_cast<std::size_t>(from)];
    // A rank may wait only after it has started all its sends.
    const bool may_wait = all_sent();
    if (source.lost || source.left == 0 || (!may_wait && source.posted.size() > 5))
      return some_left();
    std::size_t pick = first_taken_by(source, kAnyOfTheOthers);
    for (std::size_t i = pick; i < source.sent.size() && i < pick + 30; ++i)
      if (!source.taken[i] && source.sent[i].tag < kForAny && random_.chance(0.3)) pick = i;
    const std::uint64_t drawn = random_.below(4);
    const std::uint64_t tag = source.sent[pick].tag;
    const Tag wanted = drawn == 0   ? kAnyOfTheOthers
                       : drawn == 1 ? Tag(tag, kForAny | 1U)
                                    : Tag(tag);
    Posted posted;
    posted.expected = first_taken_by(source, wanted);
    const Message& message = source.sent[posted.expected];
    if (may_wait && source.posted.empty() && random_.chance(0.2)) {
      const auto seen = messages_.probe(from, wanted);
      if (!fine(seen.status(), "probe")) return lose(source);
      expect(seen->tag == message.tag && seen->bytes == static_cast<std::size_t>(message.bytes) &&
                 seen->source == from,
             "probe tells of another message");
    }
    posted.into = world_.allocate(DType::u8, {kLargest});
    posted.request = messages_.irecv(from, wanted, posted.into);
    source.taken[posted.expected] = true;
    --source.left;
    source.posted.push_back(std::move(posted));
    if (may_wait) finish(from, random_.below(6));
    return true;
  }

  bool all_sent() const {
    for (std::size_t to = 0; to < to_.size(); ++to)
      if (next_to_[to] != to_[to].size()) return false;
    return true;
  }

  bool some_left() const {
    for (const Source& source : sources_)
      if (!source.lost && source.left != 0) return true;
    return false;
  }

  bool lose(Source& source) {
    source.lost = true;
    source.posted.clear();
    return true;
  }

  /// Waits until at most `most` receives are posted for source `from`.
  void finish(int from, std::size_t most) {
    Source& source = sources_[static_cast<std::size_t>(from)];
    while (source.posted.size() > most) {
      Posted posted = std::move(source.posted.front());
      source.posted.erase(source.posted.begin());
      // At times the wait is too short and is repeated.
      if (random_.chance(0.2))
        (void)posted.request.wait(Deadline::after(std::chrono::nanoseconds(random_.below(3000))));
      const auto got = posted.request.wait();
      if (!fine(got.status(), "recv")) {
        lose(source);
        return;
      }
      check(*got, from, source.sent[posted.expected], posted.into);
    }
  }

  static void check(const MessageInfo& got, int from, const Message& message, const Tensor& into) {
    const std::string where = "the message of rank " + std::to_string(from);
    expect(got.source == from, "source mismatch of " + where);
    expect(got.tag == message.tag,
           "order mismatch: tag " + std::to_string(got.tag) + " of " + where);
    expect(got.bytes == static_cast<std::size_t>(message.bytes),
           "order mismatch: size of " + where);
    expect(holds(into.part(0, {message.bytes}), message.pattern), "data mismatch in " + where);
  }

  void cancel_one() {
    const int from =
        random_.chance(0.3)
            ? kAnySource
            : static_cast<int>(random_.below(static_cast<std::uint64_t>(world_.size())));
    const Tensor into = world_.allocate(DType::u8, {8});
    MessageRequest request = messages_.irecv(from, kNever, into);
    const Status status = request.cancel();
    expect(status.code() == Code::cancelled || is_loss(status), "cancel: " + status.text());
  }

  void receive_from_any() {
    std::size_t left = 0;
    for (const Source& source : sources_) left += source.left_for_any;
    const Tensor into = world_.allocate(DType::u8, {kLargest});
    while (left > 0) {
      const auto got =
          messages_.recv(kAnySource, kAnyOfThose, into,
                         losses_ ? Deadline::after(std::chrono::seconds(1)) : Deadline());
      // With losses, a message that a dead rank has not sent never comes, but the call waits on,
      // since other ranks live.
      if (!got.ok() && losses_ && (is_loss(got.status()) || got.code() == Code::timeout)) return;
      fine(got.status(), "recv of any source");
      Source& source = sources_[static_cast<std::size_t>(got->source)];
      const std::size_t expected = first_taken_by(source, kAnyOfThose);
      check(*got, got->source, source.sent[expected], into);
      source.taken[expected] = true;
      --left;
    }
  }

  World& world_;
  Messages messages_;
  bool losses_;
  Random random_;
  std::vector<std::vector<Message>> to_;
  std::vector<Source> sources_;
  std::vector<std::size_t> next_to_;
  std::vector<Tensor> tensors_;
  std::vector<MessageRequest> sending_;
};

SimOutcome run(std::uint64_t seed, bool losses, Plant plant = Plant::none) {
  Random random(mix(seed ^ 0x6d657373U));
  SimOptions options{.seed = seed, .faults = {}, .plant = plant};
  options.faults = drawn_faults(random);
  if (losses) options.faults.kills = 1;
  options.print = std::getenv("WEFT_TEST_TRACE") != nullptr;
  SimJob job(static_cast<int>(1 + seed % 4), options, simulated_settings());
  return job.run([&](World& world) { Player(world, seed, losses).play(); });
}

void expect_well(std::uint64_t seed, bool losses) {
  for (const std::string& failure : run(seed, losses).failures) {
    if (losses && failure.find("join") != std::string::npos) continue;
    // A rank that waits for a dead rank's message may outlast the others' leave.
    if (losses && failure.find("leave: timeout") != std::string::npos) continue;
    ADD_FAILURE() << "seed " << seed << ": " << failure << "\nseed " << seed
                  << ": replay with --seed " << seed;
  }
}

void expect_fresh_seeds_well(bool losses) {
  for_fresh_seeds(60, 5'000, [&](std::uint64_t seed) { expect_well(seed, losses); });
}

TEST(SimulatedMessages, MatchAsTheModelDoesWhateverTheFabricDoes) {
  expect_fresh_seeds_well(false);
}

TEST(SimulatedMessages, EndWhatNeedsARankThatDies) { expect_fresh_seeds_well(true); }

TEST(SimulatedMessages, NoticeAMessageThatIsAnnouncedBeforeItIsThere) {
  int caught = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed)
    for (const std::string& failure : run(seed, false, Plant::torn_put).failures)
      caught += failure.find("mismatch") != std::string::npos ||
                        failure.find("no sense") != std::string::npos
                    ? 1
                    : 0;
  EXPECT_GT(caught, 0);
}

}  // namespace
}  // namespace weft::tests
