// Files of a checkpoint: complete ones are read, damaged ones are refused with name and offset, and
// the last complete one is found, wherever a writer is stopped.
#include "pslib/checkpoint/checkpoint.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "pslib/checkpoint/upkeep.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "tests/unit/pslib/checkpoint_folder.hpp"

namespace weft::pslib {
namespace {

namespace fs = std::filesystem;
using tests::TempFolder;

constexpr std::size_t kServers = 2;
constexpr std::int64_t kElements = 400'000;  // over a block for each server
constexpr std::int64_t kHalf = kElements / 2;

/// The value of element `i` of "w" at `version`.
float value(std::uint64_t version, std::int64_t i) {
  return static_cast<float>(version) + static_cast<float>(i % 1000) / 1024.0F;
}

Manifest manifest_of(std::uint64_t version) {
  return {version, version / 2, "momentum", 1, {{"w", Shape{kElements}}, {"w/0", Shape{2, 2}}}};
}

/// One server's part; the second server also has "w/0", a name chosen to confuse.
void write_part(const fs::path& folder, std::uint64_t version, std::size_t server,
                const Failpoint& failpoint = {}) {
  std::vector<float> half(static_cast<std::size_t>(kHalf));
  const std::int64_t first = server == 0 ? 0 : kHalf;
  for (std::int64_t i = 0; i < kHalf; ++i)
    half[static_cast<std::size_t>(i)] = value(version, first + i);
  std::vector<float> state(half);
  for (float& v : state) v = -v;
  const std::vector<float> small{1, 2, 3, 4};
  std::vector<StoredArray> arrays{{array_name("w", first), half},
                                  {array_name("w", first, 0), state}};
  if (server == 1) {
    arrays.push_back({array_name("w/0", 0), small});
    arrays.push_back({array_name("w/0", 0, 0), small});
  }
  const os::Folder table = tests::folder_at(folder);
  const os::Folder to = table.make_below(version_name(version));
  write_shard_file(to, shard_name(server, kServers), arrays, failpoint);
  seal_checkpoint(table, to, manifest_of(version), kServers, failpoint);
}

void write_all(const fs::path& folder, std::uint64_t version) {
  for (std::size_t server = 0; server < kServers; ++server) write_part(folder, version, server);
}

struct Found {
  std::uint64_t version = 0;  ///< 0: none
  std::vector<std::string> refusals{};
};

/// Reads all of the newest complete checkpoint, and checks its values.
Found find(const fs::path& folder) {
  Found found;
  const auto checkpoint =
      newest_checkpoint(tests::folder_at(folder), [&](std::uint64_t, const Error& why, bool) {
        EXPECT_EQ(why.code(), Code::mismatch) << why.what();
        found.refusals.emplace_back(why.what());
      });
  if (!checkpoint) return found;
  found.version = checkpoint->manifest().version;
  std::vector<float> all(static_cast<std::size_t>(kElements));
  for (const bool is_state : {false, true}) {
    checkpoint->read("w", is_state ? std::optional<std::size_t>(0) : std::nullopt, 0, all);
    for (std::int64_t i = 0; i < kElements; ++i) {
      const float expected = value(found.version, i) * (is_state ? -1.0F : 1.0F);
      if (all[static_cast<std::size_t>(i)] == expected) continue;
      ADD_FAILURE() << "element " << i << " of version " << found.version;
      break;
    }
  }
  return found;
}

TEST(Checkpoints, AreReadInWhateverPieces) {
  const TempFolder folder;
  EXPECT_EQ(find(folder.path()).version, 0U);
  write_all(folder.path(), 10);
  write_all(folder.path(), 20);
  EXPECT_EQ(find(folder.path()).version, 20U);
  const Checkpoint old(tests::folder_at(folder.path()), 10);
  EXPECT_EQ(old.manifest().updates, 5U);
  EXPECT_EQ(old.manifest().rule, "momentum");
  EXPECT_EQ(old.manifest().tensors[1].shape, (Shape{2, 2}));
  std::mt19937 random(3);
  for (int i = 0; i < 50; ++i) {
    const std::int64_t first = random() % kElements;
    std::vector<float> run(1 + random() % static_cast<std::size_t>(kElements - first));
    old.read("w", std::nullopt, first, run);
    ASSERT_EQ(run.front(), value(10, first));
    ASSERT_EQ(run.back(), value(10, first + static_cast<std::int64_t>(run.size()) - 1));
  }
  std::vector<float> small(3);
  old.read("w/0", std::nullopt, 1, small);
  EXPECT_EQ(small, (std::vector<float>{2, 3, 4}));
  EXPECT_THROW(old.read("w/0", std::nullopt, 2, small), Error) << "it has four elements";
  EXPECT_THROW(old.read("w", 1, 0, small), Error) << "there is one state";
}

// Reads a file by the description of safetensors, without weft.
TEST(Checkpoints, ArePlainSafetensors) {
  const TempFolder folder;
  write_all(folder.path(), 10);
  std::ifstream file(tests::shard_path(folder.path(), 10, 1, kServers), std::ios::binary);
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof length);
  EXPECT_EQ(length % 8, 0U);
  std::string header(length, '\0');
  file.read(header.data(), static_cast<std::streamsize>(length));
  const auto json = nlohmann::json::parse(header);
  const auto& entry = json.at("w/" + std::to_string(kHalf));
  EXPECT_EQ(entry.at("dtype"), "F32");
  EXPECT_EQ(entry.at("shape").at(0), kHalf);
  file.seekg(static_cast<std::streamoff>(8 + length +
                                         entry.at("data_offsets").at(0).get<std::uint64_t>()));
  float first = 0;
  file.read(reinterpret_cast<char*>(&first), sizeof first);
  EXPECT_EQ(first, value(10, kHalf));
}

struct Stopped {};

// Wherever a server is stopped, the new checkpoint is complete or the previous one is found.
TEST(Checkpoints, AreWholeOrNotThereWhereverAWriterIsStopped) {
  int steps = 0;
  bool finished = false;
  for (; !finished; ++steps) {
    SCOPED_TRACE("stopped at step " + std::to_string(steps));
    const TempFolder folder;
    write_all(folder.path(), 10);
    int left = steps;
    std::string at;
    const Failpoint failpoint = [&](std::string_view step) {
      at = step;
      if (left-- == 0) throw Stopped();
    };
    try {
      for (std::size_t server = 0; server < kServers; ++server)
        write_part(folder.path(), 20, server, failpoint);
      finished = true;
    } catch (const Stopped&) {
    }
    const Found found = find(folder.path());
    EXPECT_TRUE(found.version == 20 || (found.version == 10 && !finished)) << at;
    if (!finished && found.version == 20) {
      EXPECT_EQ(at, "sync folder") << "after the last rename";
    }
  }
  EXPECT_GT(steps, 15) << "the failpoints were passed";
}

/// Damages each file of version 20 at many places, one at a time.
template <typename Damage>
void refuse_each(const Damage& damage) {
  const TempFolder folder;
  write_all(folder.path(), 10);
  write_all(folder.path(), 20);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(tests::version_folder(folder.path(), 20)))
    files.push_back(entry.path());
  ASSERT_EQ(files.size(), kServers + 1);
  for (const fs::path& file : files) {
    const std::uint64_t size = fs::file_size(file);
    const fs::path whole = folder.path() / "whole";
    fs::copy_file(file, whole, fs::copy_options::overwrite_existing);
    std::vector<std::uint64_t> places{0, 1, 7, 8, 9, 100, size / 2, size - 1};
    for (std::uint64_t at = 1 << 18; at < size; at += 1 << 18) places.push_back(at);
    for (const std::uint64_t at : places) {
      if (at >= size) continue;
      SCOPED_TRACE(file.filename().string() + " at " + std::to_string(at));
      damage(file, at);
      const Found found = find(folder.path());
      EXPECT_EQ(found.version, 10U);
      ASSERT_EQ(found.refusals.size(), 1U);
      EXPECT_NE(found.refusals[0].find(file.filename().string() + ", byte "), std::string::npos)
          << found.refusals[0];
      fs::copy_file(whole, file, fs::copy_options::overwrite_existing);
    }
  }
  EXPECT_EQ(find(folder.path()).version, 20U);
}

TEST(DamagedCheckpoints, AreRefusedWhereTheyAreCutOff) {
  refuse_each([](const fs::path& file, std::uint64_t at) { fs::resize_file(file, at); });
}

TEST(DamagedCheckpoints, AreRefusedWhereABitIsFlipped) {
  refuse_each([](const fs::path& file, std::uint64_t at) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(stream.get() ^ 4);
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(byte);
  });
}

TEST(DamagedCheckpoints, AreRefusedWithoutAFileOrWithAnothersVersion) {
  const TempFolder folder;
  write_all(folder.path(), 10);
  write_all(folder.path(), 20);
  write_all(folder.path(), 30);
  fs::remove(tests::shard_path(folder.path(), 30, 1, kServers));
  fs::remove_all(tests::version_folder(folder.path(), 20));
  fs::copy(tests::version_folder(folder.path(), 10), tests::version_folder(folder.path(), 20));
  const Found found = find(folder.path());
  EXPECT_EQ(found.version, 10U);
  ASSERT_EQ(found.refusals.size(), 2U);
  EXPECT_NE(found.refusals[0].find("not there"), std::string::npos) << found.refusals[0];
  EXPECT_NE(found.refusals[1].find("of version 10"), std::string::npos) << found.refusals[1];
}

TEST(Checkpoints, ThatAreNewerOrUnfinishedAreSetAside) {
  const TempFolder folder;
  write_all(folder.path(), 10);
  write_part(folder.path(), 15, 0);
  write_all(folder.path(), 20);
  write_all(folder.path(), 30);
  set_aside_newer(tests::folder_at(folder.path()), 20);
  EXPECT_EQ(find(folder.path()).version, 20U);
  EXPECT_TRUE(fs::exists(tests::version_folder(folder.path(), 10)));
  EXPECT_FALSE(fs::exists(tests::version_folder(folder.path(), 15)));
  EXPECT_FALSE(fs::exists(tests::version_folder(folder.path(), 30)));
  EXPECT_TRUE(fs::exists(tests::version_folder(folder.path(), 30).string() + ".refused"));
}

}  // namespace
}  // namespace weft::pslib
