// Tensors of sizes at which the path changes: empty, inline, the largest message, stripes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/settings.hpp"
#include "tests/threads/verbs/nics.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::tests {
namespace {

constexpr std::int64_t kStripes = 1 << 20;

void carry(const std::string& notify_mode, const std::string& pairs, const NicSpec& nic,
           const std::vector<std::int64_t>& sizes) {
  NicJob job({}, nic);
  job.run(2, verbs_settings().with(Setting::notify, notify_mode).with(Setting::qps_per_peer, pairs),
          [&](World& world) {
            for (const std::int64_t bytes : sizes) {
              SCOPED_TRACE(testing::Message()
                           << bytes << " bytes, " << notify_mode << ", queue pairs: " << pairs);
              const SlotSpec spec{
                  .name = std::to_string(bytes), .dtype = DType::u8, .shape = {bytes}, .depth = 2};
              // Sources and targets of every alignment; the memory around them must stay unchanged.
              if (world.rank() == 0) {
                auto slot = world.expose(spec);
                for (std::uint64_t n = 1; n <= 3; ++n)
                  EXPECT_TRUE(holds(slot.wait().value().tensor(), pattern_of(1, 0, n)));
              } else {
                auto remote = world.attach(0, spec);
                const auto memory = world.allocate(DType::u8, {bytes + 8});
                for (std::uint64_t n = 1; n <= 3; ++n) {
                  const auto tensor = memory.part(static_cast<std::int64_t>(2 * n + 1), {bytes});
                  fill(tensor, pattern_of(1, 0, n));
                  remote.put(tensor).wait().or_throw();
                }
              }
            }
          });
}

TEST(Sizes, WhereSomethingChangesAreCarriedWhole) {
  const std::vector<std::int64_t> sizes = {
      0,   1,    7,    8,    9,    119,  120,      121,          127,         128,
      129, 4095, 4096, 4097, 8191, 8193, kStripes, kStripes - 1, kStripes + 1};
  for (const char* notify_mode : {"auto", "counted", "send"})
    for (const char* pairs : {"1", "3", "8"})
      carry(notify_mode, pairs, {.max_message = 4096}, sizes);
}

TEST(Sizes, OfManyMegabytesAreCarriedWhole) {
  const std::int64_t large = conformance::kSanitized ? 8 << 20 : 64 << 20;
  carry("auto", "1", {}, {large, large + 5});
  carry("auto", "4", {.max_message = 1 << 20}, {large, large + 5});
}

/// Signed and unsigned 32-bit lengths end here, and so does the largest message of most NICs.
TEST(Sizes, OfGigabytesAreCarriedWhole) {
  const char* full = std::getenv("WEFT_TEST_FULL");
  if (full == nullptr || std::string_view(full) != "1" || conformance::kSanitized)
    GTEST_SKIP() << "a long cut (./dev test --full), without sanitizers: 13 GB of memory";
  const std::int64_t gigabyte = std::int64_t{1} << 30;
  const std::array sizes{gigabyte, 2 * gigabyte - 1, 4 * gigabyte + 9};
  NicJob job;
  Meeting meeting(2);
  const auto settings = verbs_settings().with(Setting::timeout, "120s");
  for (const std::int64_t bytes : sizes) {
    SCOPED_TRACE(testing::Message() << bytes << " bytes");
    const SlotSpec in{.name = "in", .dtype = DType::u8, .shape = {bytes}};
    const PublishedSpec out{.name = "out", .dtype = DType::u8, .shape = {bytes}};
    job.run(2, settings, [&](World& world) {
      if (world.rank() == 0) {
        auto slot = world.expose(in);
        EXPECT_TRUE(holds(slot.wait().value().tensor(), pattern_of(1, 0, 1)));
        meeting.wait();
        slot = Slot();
        auto published = world.expose_published(out);
        fill(published.next().value(), pattern_of(0, 0, 2));
        published.publish().or_throw();
        meeting.wait();
      } else {
        const auto memory = world.allocate(DType::u8, {bytes});
        fill(memory, pattern_of(1, 0, 1));
        auto remote = world.attach(0, in);
        remote.put(memory).wait().or_throw();
        meeting.wait();
        world.attach_published(0, out).get(memory).or_throw();
        EXPECT_TRUE(holds(memory, pattern_of(0, 0, 2)));
        meeting.wait();
      }
    });
  }
}

/// "queue 0: rank 0 #0, rank 1 #0; queue 1: ...", from the last such line in a rank's log.
std::vector<std::vector<std::string>> bindings(const std::string& log) {
  std::vector<std::vector<std::string>> queues;
  const std::size_t begin = log.rfind("queue 0: ");
  if (begin == std::string::npos) return queues;
  std::istringstream line(log.substr(begin, log.find('\n', begin) - begin));
  for (std::string queue; std::getline(line, queue, ';');) {
    if (queue.find("queue " + std::to_string(queues.size()) + ": ") == std::string::npos) break;
    std::istringstream names(queue.substr(queue.find(": ") + 2));
    queues.emplace_back();
    for (std::string name; std::getline(names, name, ',');) queues.back().push_back(name);
  }
  return queues;
}

TEST(QueuePairs, AreSpreadEvenlyOverTheCompletionQueues) {
  constexpr int kRanks = 5;
  for (const int queues : {1, 2, 3, 5, 8}) {
    SCOPED_TRACE("WEFT_CQS=" + std::to_string(queues));
    const TempFolder folder;
    NicJob job;
    Meeting meeting(kRanks);
    job.run(kRanks,
            verbs_settings()
                .with(Setting::cqs, std::to_string(queues))
                .with(Setting::qps_per_peer, "3")
                .with(Setting::log, "debug:path")
                .with(Setting::log_file, (folder.path() / "%r").string()),
            [&](World&) { meeting.wait(); });
    for (int rank = 0; rank < kRanks; ++rank) {
      std::ostringstream log;
      log << std::ifstream(folder.path() / std::to_string(rank)).rdbuf();
      const auto table = bindings(log.str());
      ASSERT_EQ(table.size(), static_cast<std::size_t>(queues)) << log.str();
      const auto [fewest, most] =
          std::minmax_element(table.begin(), table.end(),
                              [](const auto& a, const auto& b) { return a.size() < b.size(); });
      EXPECT_LE(most->size() - fewest->size(), 1U);
      std::size_t all = 0;
      for (const auto& queue : table) all += queue.size();
      EXPECT_EQ(all, 3U * kRanks) << "its own too";
    }
  }
}

}  // namespace
}  // namespace weft::tests
