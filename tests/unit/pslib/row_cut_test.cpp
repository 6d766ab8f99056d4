// Rows are saved as they were at one moment, while other threads change them, and are restored
// unchanged.
#include "pslib/sparse/row_cut.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>

#include "pslib/sparse/checkpoints.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "tests/unit/pslib/checkpoint_folder.hpp"

namespace weft::pslib {
namespace {

namespace fs = std::filesystem;
using tests::TempFolder;

SparseDescription table_of(std::size_t servers, std::uint64_t dim) {
  Roles roles;
  const int size = static_cast<int>(servers);
  for (int rank = 0; rank < size; ++rank) {
    roles.workers.push_back(rank);
    roles.servers.push_back(rank);
  }
  SparseOptions options;
  options.dim = dim;
  options.optimizer = Optimizer::adam(0.1F);
  options.seed = 3;
  options.admit_after = 2;
  options.expire_after = 9;
  return {roles, "ps", "rows", options};
}

/// Makes `calls` random calls; appends their results to `seen`.
void use(RowStore& store, const RowRules& rules, unsigned seed, int calls,
         std::vector<float>* seen = nullptr) {
  std::mt19937_64 random(seed);
  std::vector<float> row(rules.dim);
  for (int i = 0; i < calls; ++i) {
    const std::uint64_t version = seed * 8 + static_cast<std::uint64_t>(i * 8 / calls);
    const std::uint64_t id = random() % 5000;
    if (random() % 1000 == 0) store.forget(version);
    if (random() % 4 != 0) {
      store.look_up(id, version, row.data());
      if (seen != nullptr) seen->insert(seen->end(), row.begin(), row.end());
    } else if (float* const to = store.to_update(id, version)) {
      for (std::size_t k = 0; k < rules.dim * (1 + rules.states); ++k)
        to[k] = static_cast<float>(random() % 1000);
    }
  }
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(RowCuts, AreNotChangedByWhatComesLater) {
  const SparseDescription table = table_of(1, 4);
  const RowRules rules = table.row_rules();
  for (unsigned seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const TempFolder folder;
    RowStore store(rules);
    use(store, rules, seed, 20'000);
    write_rows(tests::folder_at(folder.path()), "at once", *store.cut(), rules);
    const auto cut = store.cut();
    std::jthread writer(
        [&] { write_rows(tests::folder_at(folder.path()), "meanwhile", *cut, rules); });
    for (unsigned more = 1; more < 8; ++more) use(store, rules, seed + more, 5'000);
    writer.join();
    EXPECT_EQ(bytes_of(folder.path() / "at once"), bytes_of(folder.path() / "meanwhile"));
  }
}

// A thread that updates more rows than may be copied waits for the writer.
TEST(RowCuts, TakeNoMoreMemoryThanIsSaid) {
  constexpr std::size_t kDim = 128;
  constexpr std::size_t kRow = kDim * 3 * sizeof(float);
  constexpr std::size_t kMost = (1 << 20) / kRow;
  const SparseDescription table = table_of(1, kDim);
  RowRules rules = table.row_rules();
  rules.admit_after = 0;
  RowStore store(rules);
  constexpr std::uint64_t kRows = 4 * RowCut::kChunk;
  for (std::uint64_t id = 0; id < kRows; ++id) store.to_update(id, 0)[0] = 1.0F;
  const TempFolder folder;
  write_rows(tests::folder_at(folder.path()), "at once", *store.cut(), rules);
  const auto cut = store.cut();
  std::atomic<bool> is_full = false;
  std::jthread writer([&] {
    write_rows(tests::folder_at(folder.path()), "meanwhile", *cut, rules,
               [&](std::string_view step) {
                 if (step == "create") is_full.wait(false);
               });
  });
  // Start with the last row, which the writer reaches last.
  for (std::uint64_t id = kRows; id-- > 0;) {
    if (kRows - 1 - id == kMost) {
      is_full = true;
      is_full.notify_one();
    }
    store.to_update(id, 1)[0] = 2.0F;
  }
  writer.join();
  EXPECT_EQ(cut->kept_at_most(), kMost);
  EXPECT_EQ(bytes_of(folder.path() / "at once"), bytes_of(folder.path() / "meanwhile"));
}

void write_part(const fs::path& folder, const SparseDescription& table, RowStore& store,
                std::uint64_t version, std::size_t server, const Failpoint& failpoint = {}) {
  const std::size_t servers = table.roles.servers.size();
  const os::Folder at = tests::folder_at(folder);
  const os::Folder to = at.make_below(version_name(version));
  write_rows(to, shard_name(server, servers), *store.cut(), table.row_rules(), failpoint);
  seal_checkpoint(at, to, manifest_of(table, version), servers, failpoint);
}

/// The stores of all servers of a table, after the same calls.
std::vector<std::unique_ptr<RowStore>> stores_of(const SparseDescription& table, unsigned seed) {
  const RowRules rules = table.row_rules();
  std::vector<std::unique_ptr<RowStore>> stores;
  for (std::size_t i = 0; i < table.roles.servers.size(); ++i) {
    stores.push_back(std::make_unique<RowStore>(rules));
    std::mt19937_64 random(seed);
    std::vector<float> row(rules.dim);
    for (int call = 0; call < 8000; ++call) {
      const std::uint64_t id = random() % 600;
      const auto version = static_cast<std::uint64_t>(call / 800);
      const bool looks = random() % 2 == 0;
      const auto value = static_cast<float>(random() % 1000);
      if (table.server_of(id) != i) continue;
      if (looks)
        stores.back()->look_up(id, version, row.data());
      else if (float* const to = stores.back()->to_update(id, version))
        to[call % static_cast<int>(rules.dim * 3)] = value;
    }
  }
  return stores;
}

TEST(SavedRows, AreTheSameOnAnotherNumberOfServers) {
  const TempFolder folder;
  const SparseDescription from = table_of(4, 5);
  const auto saved = stores_of(from, 11);
  for (std::size_t i = 0; i < 4; ++i) write_part(folder.path(), from, *saved[i], 10, i);
  const Checkpoint checkpoint(tests::folder_at(folder.path()), 10);
  EXPECT_EQ(checkpoint.manifest().rows->expire_after, 9U);
  for (const std::size_t servers : {1U, 2U, 3U}) {
    const SparseDescription table = table_of(servers, 5);
    const auto whole = stores_of(table, 11);
    for (std::size_t i = 0; i < servers; ++i) {
      RowStore restored(table.row_rules());
      restore_rows(checkpoint, table, i, restored);
      EXPECT_EQ(restored.rows(), whole[i]->rows());
      std::vector<float> a;
      std::vector<float> b;
      for (const auto& [store, seen] : {std::pair{&restored, &a}, {whole[i].get(), &b}})
        for (unsigned seed = 2; seed < 5; ++seed) use(*store, table.row_rules(), seed, 4000, seen);
      EXPECT_EQ(a, b) << "server " << i << " of " << servers;
    }
  }
}

/// The version of the newest complete checkpoint, and the reason why the newer one was refused.
std::pair<std::uint64_t, std::string> find(const fs::path& folder) {
  std::string why;
  const auto found =
      newest_checkpoint(tests::folder_at(folder),
                        [&](std::uint64_t, const Error& error, bool) { why = error.what(); });
  return {found ? found->manifest().version : 0, why};
}

TEST(SavedRows, AreThereWholeOrNotWhereverAWriterIsStopped) {
  const SparseDescription table = table_of(2, 5);
  const auto stores = stores_of(table, 5);
  struct Stopped {};
  int steps = 0;
  for (bool finished = false; !finished; ++steps) {
    SCOPED_TRACE("stopped at step " + std::to_string(steps));
    const TempFolder folder;
    for (std::size_t i = 0; i < 2; ++i) write_part(folder.path(), table, *stores[i], 10, i);
    int left = steps;
    std::string at;
    try {
      for (std::size_t i = 0; i < 2; ++i)
        write_part(folder.path(), table, *stores[i], 20, i, [&](std::string_view step) {
          at = step;
          if (left-- == 0) throw Stopped();
        });
      finished = true;
    } catch (const Stopped&) {
    }
    const std::uint64_t found = find(folder.path()).first;
    EXPECT_EQ(found, finished || (found == 20 && at == "sync folder") ? 20U : 10U) << at;
  }
  EXPECT_GT(steps, 20) << "the failpoints were passed";
}

TEST(SavedRows, AreRefusedWhereverTheyAreCutOffOrFlipped) {
  const TempFolder folder;
  const SparseDescription table = table_of(2, 5);
  const auto stores = stores_of(table, 5);
  for (const std::uint64_t version : {10U, 20U})
    for (std::size_t i = 0; i < 2; ++i) write_part(folder.path(), table, *stores[i], version, i);
  const fs::path file = tests::shard_path(folder.path(), 20, 1, 2);
  const std::string whole = bytes_of(file);
  const auto refused = [&](const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
    const auto [version, why] = find(folder.path());
    EXPECT_EQ(version, 10U);
    EXPECT_NE(why.find(file.filename().string() + ", byte "), std::string::npos) << why;
  };
  for (std::size_t at = 0; at < whole.size(); at += 509) {
    SCOPED_TRACE("at " + std::to_string(at));
    refused(whole.substr(0, at));
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    refused(flipped);
  }
  std::ofstream(file, std::ios::binary) << whole;
  EXPECT_EQ(find(folder.path()).first, 20U);
}

}  // namespace
}  // namespace weft::pslib
