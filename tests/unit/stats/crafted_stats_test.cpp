// Stats segments and recordings from an untrusted source: with any content, a copy is refused or
// can be read.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "base/stats/executor_row.hpp"
#include "base/stats/recording.hpp"
#include "base/stats/stats_segment.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "weft/error.hpp"

namespace weft::stats {
namespace {

std::shared_ptr<StatsSegment> made_stats() {
  return StatsSegment::create(
      {.rank = 1, .size = 3, .host = "host", .job = "7", .records = 64, .nodes = 8});
}

std::string bytes_of(const os::Fd& file, std::size_t most) {
  std::string bytes(most, '\0');
  bytes.resize(static_cast<std::size_t>(::pread(file.get(), bytes.data(), most, 0)));
  return bytes;
}

os::Fd file_of(const std::string& bytes) {
  os::Fd file(::memfd_create("crafted", MFD_CLOEXEC));
  EXPECT_EQ(::write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return file;
}

/// Reads all of a segment; returns true if `bytes` are no stats segment.
bool is_refused(const std::string& bytes) {
  try {
    const auto view = StatsView::copy_of(file_of(bytes));
    std::size_t seen = view.edges().size() + view.all_edges().size() + view.waits().size() +
                       view.recorder().all().events.size() + view.schema().size();
    for (const ShownExecutor& one : view.executors()) seen += one.name.size();
    for (const ShownNode& node : view.nodes()) seen += node.name.size();
    for (const PathEntry& path : view.paths()) seen += path.host.get().size();
    for (const char* text : {view.identity().host.data(), view.identity().job.data(),
                             view.identity().boot.data(), view.recorded().why.data()})
      seen += std::strlen(text);
    EXPECT_LT(seen, bytes.size() * 2);
    EXPECT_LT(view.identity().rank, view.identity().size);
    EXPECT_EQ(static_cast<std::size_t>(view.identity().size), view.paths().size());
    return false;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::system);
    return true;
  }
}

/// The bytes of a recording of a stats segment that has every kind of entry.
std::string recording() {
  const tests::TempFolder folder;
  const auto stats = made_stats();
  const EdgeRow row(stats, {.name = "gradients", .slot = 9, .role = Role::puts, .peer = 1});
  const std::vector<std::string> nodes{"conv (Conv)", "loss"};
  const ExecutorRow executor(stats, "graph", nodes);
  Recorder recorder(stats->ring_state(), stats->ring(), RecordLevel::control);
  for (int i = 0; i < 100; ++i) recorder.control(Event::timeout, 1, 9);
  const std::string path =
      write_recording(StatsView::of(stats->bytes()), folder.path().string(), {.why = "asked"});
  return bytes_of(os::Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), 1 << 20);
}

Section& section(std::string& bytes, SectionIndex index) {
  return reinterpret_cast<Header*>(bytes.data())->sections[static_cast<std::size_t>(index)];
}

TEST(CraftedStats, OfHonestRanksAreCopied) {
  const auto stats = made_stats();
  const EdgeRow row(stats, {.name = "gradients", .slot = 9, .role = Role::puts, .peer = 1});
  const auto view = StatsView::copy_of(stats->file());
  ASSERT_EQ(view.edges().size(), 1U);
  EXPECT_EQ(view.edges()[0].report.slot, "gradients");
  EXPECT_STREQ(view.identity().host.data(), "host");
  EXPECT_FALSE(is_refused(recording()));
}

TEST(CraftedStats, HaveSectionsOfEntriesThatLieApart) {
  const std::string honest = recording();
  for (std::size_t i = 0; i < kSections; ++i) {
    SCOPED_TRACE("section " + std::to_string(i));
    const auto index = static_cast<SectionIndex>(i);
    std::string bytes = honest;
    section(bytes, index).capacity = 0;
    section(bytes, index).offset = bytes.size() / 64 * 64;
    EXPECT_EQ(is_refused(bytes), index != SectionIndex::edges) << "there may be no edges";
    bytes = honest;
    section(bytes, index).offset = 0;
    EXPECT_TRUE(is_refused(bytes));
    for (const std::uint64_t offset : {std::uint64_t{64}, bytes.size() - 1, ~std::uint64_t{63}}) {
      bytes = honest;
      section(bytes, index).offset = offset;
      EXPECT_TRUE(is_refused(bytes));
    }
    bytes = honest;
    section(bytes, index).entry_bytes = 0xffffffff;
    EXPECT_TRUE(is_refused(bytes));
  }
}

TEST(CraftedStats, HaveTextsWithAnEnd) {
  std::string bytes = recording();
  auto& identity = *reinterpret_cast<SegmentIdentity*>(
      bytes.data() + section(bytes, SectionIndex::identity).offset);
  identity.host.fill('h');
  identity.job.fill('j');
  identity.boot.fill('b');
  reinterpret_cast<Recorded*>(bytes.data() + section(bytes, SectionIndex::recorded).offset)
      ->why.fill('w');
  const auto view = StatsView::copy_of(file_of(bytes));
  EXPECT_EQ(std::strlen(view.identity().host.data()), identity.host.size() - 1);
  EXPECT_EQ(std::strlen(view.recorded().why.data()), 231U);
  identity.size = 1 << 30;
  EXPECT_TRUE(is_refused(bytes));
}

TEST(CraftedStats, OfAnyBytesAreRefusedOrWalked) {
  const std::string honest = recording();
  const char* const given = std::getenv("WEFT_TEST_SEED");
  const auto seed = given != nullptr ? std::strtoul(given, nullptr, 10) : std::random_device()();
  SCOPED_TRACE("WEFT_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(static_cast<unsigned>(seed));
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = honest;
    // Half of the changes are in the header, which holds the offsets.
    for (int spoilt = 0; spoilt < 1 + i % 8; ++spoilt) {
      const std::size_t most = random() % 2 == 0 ? sizeof(Header) : bytes.size();
      bytes[random() % most] = static_cast<char>(random() % 4 == 0 ? 0xff : random());
    }
    if (i % 5 == 0) bytes.resize(random() % bytes.size());
    (void)is_refused(bytes);
  }
}

// The owner truncates and extends the file while a reader reads it.
TEST(CraftedStats, MayBeCutOffMeanwhile) {
  const std::string honest = recording();
  const os::Fd file = file_of(honest);
  std::atomic<bool> ends = false;
  std::jthread owner([&] {
    while (!ends) {
      (void)::ftruncate(file.get(), 100);
      (void)::pwrite(file.get(), honest.data(), honest.size(), 0);
    }
  });
  int copied = 0;
  for (int i = 0; i < 2000; ++i) {
    try {
      copied += StatsView::copy_of(file).identity().rank == 1 ? 1 : 0;
    } catch (const Error&) {
      continue;
    }
  }
  ends = true;
  RecordProperty("copied", copied);
}

TEST(CraftedStats, AreRegularFiles) {
  const tests::TempFolder folder;
  ASSERT_EQ(::mkfifo((folder.path() / "fifo").c_str(), 0600), 0);
  const os::Fd fifo(::open((folder.path() / "fifo").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  EXPECT_THROW(static_cast<void>(StatsView::copy_of(fifo)), Error);
  const os::Fd hole(::memfd_create("hole", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(hole.get(), off_t{1} << 42), 0);
  EXPECT_THROW(static_cast<void>(StatsView::copy_of(hole)), Error);
}

}  // namespace
}  // namespace weft::stats
