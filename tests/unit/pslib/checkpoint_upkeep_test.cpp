// The number of checkpoints that are kept. Unfinished ones are removed with the old ones, and a
// checkpoint that is being read never is.
#include "pslib/checkpoint/upkeep.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <set>

#include "pslib/checkpoint/checkpointer.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "tests/unit/pslib/checkpoint_folder.hpp"

namespace weft::pslib {
namespace {

namespace fs = std::filesystem;
using tests::TempFolder;

constexpr std::int64_t kElements = 4096;

Manifest manifest_of(std::uint64_t version) {
  return {version, version, "sgd", 0, {{"w", Shape{2 * kElements}}}};
}

/// One of two servers that save a table.
class Server {
 public:
  Server(const fs::path& folder, std::size_t server, std::uint64_t keep)
      : server_(server),
        to_({.folder = folder.string(), .every = 1, .keep = keep}, "table", server, 2,
            [this](const std::string& why) { failures.push_back(why); }) {}
  void save(std::uint64_t version) {
    const std::vector<float> values(kElements, static_cast<float>(version));
    const std::vector<StoredArray> arrays{
        {array_name("w", static_cast<std::int64_t>(server_) * kElements), values}};
    to_.save(manifest_of(version), arrays);
    to_.wait();
  }
  std::vector<std::string> failures;

 private:
  std::size_t server_;
  Checkpointer to_;
};

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

std::set<std::string> versions(std::initializer_list<std::uint64_t> all) {
  std::set<std::string> names;
  for (const std::uint64_t version : all) names.insert(version_name(version));
  return names;
}

/// Limits the size of files to `bytes`: a writer fails as on a full disk.
class NoRoom {
 public:
  explicit NoRoom(rlim_t bytes) {
    old_signal_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit less{bytes, old_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &less), 0);
  }
  ~NoRoom() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_signal_);
  }
  NoRoom(const NoRoom&) = delete;
  NoRoom& operator=(const NoRoom&) = delete;

 private:
  rlimit old_{};
  void (*old_signal_)(int) = nullptr;
};

TEST(KeptCheckpoints, AreTheNewestWithNothingBeforeThem) {
  const TempFolder folder;
  const fs::path table = folder.path() / "table";
  Server first(folder.path(), 0, 2);
  Server second(folder.path(), 1, 2);
  for (const std::uint64_t version : {1U, 2U}) {
    first.save(version);
    second.save(version);
  }
  first.save(3);  // never finished
  fs::create_directories(table / (version_name(2) + ".refused"));
  for (const std::uint64_t version : {4U, 5U}) {
    second.save(version);
    first.save(version);
  }
  EXPECT_TRUE(first.failures.empty() && second.failures.empty());
  EXPECT_EQ(names_in(table), versions({4, 5}));
  Server all(folder.path(), 0, 0);
  Server others(folder.path(), 1, 0);
  for (const std::uint64_t version : {6U, 7U, 8U}) {
    all.save(version);
    others.save(version);
  }
  EXPECT_EQ(names_in(table), versions({4, 5, 6, 7, 8})) << "0 keeps all";
}

TEST(KeptCheckpoints, AreWholeWhereAnOlderOneCannotBeRemoved) {
  const TempFolder folder;
  const fs::path table = folder.path() / "table";
  Server first(folder.path(), 0, 1);
  Server second(folder.path(), 1, 1);
  first.save(1);
  second.save(1);
  // Nested folders, more than the upkeep ever removes.
  fs::path deep = table / version_name(1);
  for (int i = 0; i < 40; ++i) deep /= "d";
  fs::create_directories(deep);
  first.save(2);
  second.save(2);
  EXPECT_TRUE(first.failures.empty());
  ASSERT_EQ(second.failures.size(), 1U);
  EXPECT_NE(second.failures[0].find("checkpoint 2 was written, but older ones were not removed"),
            std::string::npos)
      << second.failures[0];
  EXPECT_TRUE(fs::exists(table / version_name(2) / kManifestName));
}

TEST(KeptCheckpoints, AreWrittenBesideALeftoverThatCannotBeRemoved) {
  const TempFolder folder;
  const fs::path table = folder.path() / "table";
  fs::path deep = table / (version_name(1) + ".1234.removed");
  for (int i = 0; i < 40; ++i) deep /= "d";
  fs::create_directories(deep);
  Server only(folder.path(), 0, 1);
  Server other(folder.path(), 1, 1);
  only.save(2);
  other.save(2);
  EXPECT_TRUE(fs::exists(table / version_name(2) / kManifestName));
  ASSERT_EQ(other.failures.size(), 1U);
  EXPECT_NE(other.failures[0].find("was not removed"), std::string::npos) << other.failures[0];
}

TEST(KeptCheckpoints, IncludeOneThatIsRead) {
  const TempFolder folder;
  const fs::path table = folder.path() / "table";
  Server first(folder.path(), 0, 1);
  Server second(folder.path(), 1, 1);
  const auto save = [&](std::uint64_t version) {
    first.save(version);
    second.save(version);
  };
  save(1);
  {
    const auto read = newest_checkpoint(tests::folder_at(table), {});
    save(2);
    save(3);
    EXPECT_EQ(names_in(table), versions({1, 3}));
    std::vector<float> values(2 * kElements);
    read->read("w", std::nullopt, 0, values);
    EXPECT_EQ(values.front(), 1.0F);
  }
  save(4);
  EXPECT_EQ(names_in(table), versions({4}));
}

TEST(KeptCheckpoints, AreForTheirOwnerAlone) {
  const TempFolder folder;
  Server first(folder.path() / "new", 0, 1);
  first.save(1);
  const fs::path version = folder.path() / "new" / "table" / version_name(1);
  struct stat about {};
  ASSERT_EQ(::stat(version.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0700U);
  ASSERT_EQ(::stat((version / shard_name(0, 2)).c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0600U);
}

TEST(UnfinishedCheckpoints, LeaveNothingOnAFullDisk) {
  const TempFolder folder;
  const fs::path table = folder.path() / "table";
  {
    Server first(folder.path(), 0, 2);
    Server second(folder.path(), 1, 2);
    first.save(1);
    second.save(1);
    for (std::uint64_t version = 2; version < 6; ++version) {
      first.save(version);
      {
        const NoRoom full(2000);
        second.save(version);
      }
      EXPECT_EQ(names_in(table), versions({1}));
    }
    EXPECT_EQ(second.failures.size(), 4U);
    for (const std::string& why : second.failures)
      EXPECT_NE(why.find("table/0000"), std::string::npos) << why;
    // A server that reaches the version only now can't know.
    first.save(6);
    {
      const NoRoom full(2000);
      second.save(7);
    }
    first.save(7);
    EXPECT_EQ(names_in(table), versions({1, 6, 7}));
    second.save(8);
    EXPECT_EQ(names_in(table), versions({1, 6, 8})) << "swept with the next one";
    first.save(8);
    EXPECT_EQ(names_in(table), versions({1, 6, 8})) << "two are whole, one is between them";
    first.save(9);
    second.save(9);
  }
  EXPECT_EQ(names_in(table), versions({8, 9}));
  const auto found = newest_checkpoint(tests::folder_at(table), {});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->manifest().version, 9U);
}

TEST(UnfinishedCheckpoints, LeaveNoPartOfAFile) {
  const TempFolder folder;
  const os::Folder to = tests::folder_at(folder.path());
  const std::vector<float> values(kElements);
  const std::vector<StoredArray> arrays{{"w/0", values}};
  const NoRoom full(2000);
  EXPECT_THROW(write_shard_file(to, "shard", arrays), Error);
  EXPECT_TRUE(to.names().empty());
}

TEST(PlantedLinks, LeadNoCheckpointElsewhere) {
  const TempFolder folder;
  const fs::path table = folder.path() / "table";
  fs::create_directories(folder.path() / "elsewhere");
  fs::create_directories(table);
  fs::create_directory_symlink("../elsewhere", table / version_name(1));
  fs::create_directories(table / version_name(2));
  folder.write("secret", "s");
  // The former names of a shard's file and of its draft.
  fs::create_symlink(folder.path() / "secret", table / version_name(2) / shard_name(0, 2));
  fs::create_symlink(folder.path() / "secret",
                     table / version_name(2) / (shard_name(0, 2) + ".0.tmp"));
  Server first(folder.path(), 0, 0);
  first.save(1);
  ASSERT_EQ(first.failures.size(), 1U);
  EXPECT_NE(first.failures[0].find("symbolic link"), std::string::npos) << first.failures[0];
  first.save(2);
  EXPECT_EQ(first.failures.size(), 1U);
  EXPECT_TRUE(fs::is_empty(folder.path() / "elsewhere"));
  EXPECT_EQ(fs::file_size(folder.path() / "secret"), 1U);
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(table / version_name(2) / shard_name(0, 2))));

  const fs::path linked = folder.path() / "linked";
  fs::create_directories(linked);
  fs::create_directory_symlink("../elsewhere", linked / "table");
  Server second(linked, 0, 0);
  second.save(1);
  ASSERT_EQ(second.failures.size(), 1U);
  EXPECT_TRUE(fs::is_empty(folder.path() / "elsewhere"));
}

}  // namespace
}  // namespace weft::pslib
