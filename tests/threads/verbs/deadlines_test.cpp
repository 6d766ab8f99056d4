// Every public call that takes a deadline, over verbs, while the other rank's NIC neither sends nor
// receives and no rank is told: from before that rank's part, or from within it. The call returns
// within its deadline and names the rank. For memory that a NIC may still write, see
// late_reads_test.cpp.
#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/deadlines/row.hpp"
#include "tests/threads/verbs/nics.hpp"

namespace weft::tests {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCallDeadline{80};
constexpr milliseconds kCallGrace{100};
/// A busy machine may be late now and then; a call that doesn't keep its deadline always is.
constexpr int kMostTries = 3;

/// A NIC gives a peer up much later than any call here.
constexpr std::chrono::seconds kRetries{60};

enum class Silent : std::uint8_t { before, within };
constexpr Silent kSilent[] = {Silent::before, Silent::within};
const char* name_of(Silent silent) {
  return silent == Silent::before ? "before its part" : "within its part";
}

/// The result of a job of two ranks. Its ranks meet between the steps of a row.
struct Outcome {
  std::string trouble;
  bool is_late = false;
  bool timed_out = false;
};

class SilentJob {
 public:
  SilentJob(const Row& row, Silent silent, int number, int nics = 1)
      : row_(row),
        silent_(silent),
        number_(number),
        nics_(nics),
        job_({.retry_wait = kRetries}, {}, nics) {}

  Outcome run() {
    job_.run(2, verbs_settings().with(Setting::dead_after, "60s").with(Setting::rails, "2"),
             [this](World& world) { world.rank() == 0 ? call(world) : answer(world); });
    return outcome_;
  }

 private:
  Side side_of(World& world) const { return {world, std::to_string(1000 + number_), "", ""}; }

  void call(World& world) {
    Side side = side_of(world);
    std::optional<Case> made = row_.make(side);
    EXPECT_EQ(world.report().paths.back().rails.size(), static_cast<std::size_t>(nics_));
    meeting_.wait();
    if (silent_ == Silent::before) job_.network.isolate(1);
    meeting_.wait();
    if (silent_ == Silent::within) {
      std::this_thread::sleep_for(std::chrono::microseconds(50 * (number_ % 8)));
      job_.network.isolate(1);
    }
    const auto begun = Clock::now();
    const Said said = made->call(Deadline::after(kCallDeadline));
    judge(said.status, Clock::now() - begun);
    job_.network.isolate(1, false);
    meeting_.wait();
    if (made->end) made->end();
    made.reset();
    meeting_.wait();
  }

  void answer(World& world) {
    Side side = side_of(world);
    std::optional<Case> made = row_.make(side);
    meeting_.wait();
    meeting_.wait();
    if (made->part) made->part();
    meeting_.wait();
    if (made->end) made->end();
    made.reset();
    meeting_.wait();
  }

  void judge(const Status& status, std::chrono::nanoseconds took) {
    const auto ms = std::chrono::duration_cast<milliseconds>(took).count();
    outcome_.timed_out = status.code() == Code::timeout;
    outcome_.is_late = took > kCallDeadline + kCallGrace;
    if (outcome_.is_late)
      outcome_.trouble = "it took " + std::to_string(ms) + " ms: " + status.text();
    else if (!status.ok() && !outcome_.timed_out)
      outcome_.trouble = "it says " + status.text();
    else if (outcome_.timed_out && row_.names_peer && !contains(status.text(), "rank 1"))
      outcome_.trouble = "its error does not name rank 1: " + status.text();
  }

  const Row& row_;
  const Silent silent_;
  const int number_;
  const int nics_;
  NicJob job_;
  Meeting meeting_{2};
  Outcome outcome_;
};

class DeadlinesByVerbs : public testing::TestWithParam<Row> {
 protected:
  void hold(std::span<const Silent> moments, int nics) {
    const Row& row = GetParam();
    bool timed_out = false;
    int number = 0;
    for (const Silent silent : moments) {
      Outcome outcome;
      for (int i = 0; i < kMostTries; ++i) {
        outcome = SilentJob(row, silent, ++number, nics).run();
        timed_out = timed_out || outcome.timed_out;
        if (!outcome.is_late) break;
      }
      EXPECT_EQ(outcome.trouble, "") << row.label() << ", rank 1 silent " << name_of(silent);
    }
    EXPECT_TRUE(timed_out || !row.needs_peer) << row.label() << " never needed rank 1";
  }
};

TEST_P(DeadlinesByVerbs, Hold) { hold(kSilent, 1); }

// Both fall silent at once.
TEST_P(DeadlinesByVerbs, HoldByTwoPorts) { hold(std::span(kSilent).first(1), 2); }

/// All rows but those of subscribers, which verbs do not reach.
std::vector<Row> rows() {
  std::vector<Row> all;
  for (auto rows : {slot_rows, message_rows, exchange_rows, table_rows, group_rows})
    for (Row& row : rows()) all.push_back(std::move(row));
  return all;
}

std::string name_of_row(const testing::TestParamInfo<Row>& info) {
  std::string name;
  for (const char letter : info.param.label())
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0) name += letter;
  return name + "_" + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(Calls, DeadlinesByVerbs, testing::ValuesIn(rows()), name_of_row);

}  // namespace

void PrintTo(const Row& row, std::ostream* out) { *out << row.label(); }

}  // namespace weft::tests
