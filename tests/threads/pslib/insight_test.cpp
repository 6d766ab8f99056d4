// The figures that ranks show of their tables: on pages that any process can read, and in
// Prometheus' files.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/stats/table_stats.hpp"
#include "tests/threads/pslib/sparse_job.hpp"
#include "tests/threads/pslib/sparse_reference.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::tests {
namespace {

namespace fs = std::filesystem;
using pslib::Consistency;
using pslib::SparseTable;

/// The pages of this process, in which all ranks run.
std::vector<stats::TableView> pages() {
  std::vector<stats::TableView> found;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (!fs::read_symlink(entry.path(), gone).native().starts_with("/memfd:weft-table")) continue;
    const os::Fd file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (auto view = stats::TableView::open(file)) found.push_back(std::move(view));
  }
  return found;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(TableInsight, CountsWhatWorkersAndShardsDo) {
  const TempFolder folder;
  run_on(2, [&](World& world) {
    pslib::ParameterServer server(
        world, {.dedicated_servers = 1, .metrics_folder = folder.path().string()});
    {
      SparseTable table = server.sparse_table("rows", plain(Consistency::async()));
      if (server.works()) {
        const Ids ids{1, 2, 3};
        Floats rows(12);
        for (int step = 0; step < 5; ++step) table.push_lookup(ids, rows, ids, rows).or_throw();
        for (const stats::TableView& view : pages()) {
          const stats::TablePage& page = view.page();
          EXPECT_EQ(std::string(page.server.data()) + "/" + page.table.data(), "ps/rows");
          if (page.works == 0) continue;
          EXPECT_EQ(page.rank, 0);
          EXPECT_EQ(page.worker.pushes.get(), 5U);
          EXPECT_EQ(page.worker.pulls.get(), 5U);
          EXPECT_EQ(page.worker.bytes_pulled.get(), 5U * 12 * 4);
          EXPECT_EQ(page.worker.version.load(), 5U);
          EXPECT_GT(page.worker.waited_ns.get(), 0U);
        }
        EXPECT_EQ(pages().size(), 2U);
      } else {
        SparseTable* const tables[] = {&table};
        server.serve({}, tables).or_throw();
      }
    }
    (void)world.leave();
  });
  EXPECT_EQ(pages().size(), 0U) << "they go with their tables";

  const std::string worker = text_of(folder.path() / "ps.rows.0.prom");
  const std::string labels = R"({server="ps",table="rows",rank="0"})";
  EXPECT_TRUE(contains(worker, "# TYPE weft_ps_pushes_total counter\n")) << worker;
  EXPECT_TRUE(contains(worker, "weft_ps_pushes_total" + labels + " 5\n")) << worker;
  EXPECT_FALSE(contains(worker, "staleness")) << "it has no shard";
  const std::string shard = text_of(folder.path() / "ps.rows.1.prom");
  for (const char* line : {"weft_ps_applied_total{server=\"ps\",table=\"rows\",rank=\"1\"} 5\n",
                           "weft_ps_updated_rows_total{server=\"ps\",table=\"rows\",rank=\"1\"} 15",
                           "weft_ps_rows{server=\"ps\",table=\"rows\",rank=\"1\"} 3\n",
                           "weft_ps_queue{server=\"ps\",table=\"rows\",rank=\"1\"} 0\n",
                           "le=\"0\"} 5\n", "le=\"+Inf\"} 5\n"})
    EXPECT_TRUE(contains(shard, line)) << line << " in " << shard;
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2) << "no temporary is left";
}

TEST(TableInsight, CountsTheBytesOfRowsAsTheyAreSent) {
  const TempFolder folder;
  run_on(1, [&](World& world) {
    pslib::ParameterServer server(world, {.metrics_folder = folder.path().string()});
    pslib::SparseOptions options = plain(Consistency::bsp());
    options.wire = DType::bf16;
    SparseTable table = server.sparse_table("rows", options);
    const Ids ids{1, 2, 3};
    Floats rows(12);
    for (int step = 0; step < 5; ++step) table.push_lookup(ids, rows, ids, rows).or_throw();
    for (const stats::TableView& view : pages()) {
      const stats::TablePage& page = view.page();
      EXPECT_EQ(page.worker.bytes_pushed.get(), 5U * 12 * 2);
      EXPECT_EQ(page.worker.bytes_pulled.get(), 5U * 12 * 2);
      EXPECT_EQ(page.shard.bytes_read.load(), 5U * (12 * 2 + 2 * 3 * 8)) << "and ids twice";
      EXPECT_EQ(page.shard.bytes_written.load(), 5U * 12 * 2);
    }
    EXPECT_EQ(pages().size(), 1U);
    world.leave().or_throw();
  });
  const std::string labels = R"({server="ps",table="rows",rank="0"})";
  const std::string file = text_of(folder.path() / "ps.rows.0.prom");
  for (const char* name : {"pushed", "pulled", "written"})
    EXPECT_TRUE(contains(file, std::string("weft_ps_") + name + "_bytes_total" + labels + " 120\n"))
        << file;
}

// The time of a step is the workers' waiting time, with or without a reader of the pages.
TEST(TableInsight, CountsDenseStepsOfRanksThatServeToo) {
  run_on(2, [&](World& world) {
    pslib::ParameterServer server(world);
    auto table = server.table("model", Regression::specs(), pslib::Optimizer::sgd(1.0F));
    table.initialize().or_throw();
    for (int step = 0; step < 3; ++step) table.push_pull().or_throw();
    for (const stats::TableView& view : pages()) {
      const stats::TablePage& page = view.page();
      if (page.rank != world.rank()) continue;
      EXPECT_EQ(page.worker.pushes.get(), 3U);
      EXPECT_EQ(page.worker.bytes_pushed.get(), 3U * 4 * (7 * 19 + 7));
      EXPECT_EQ(page.shard.version.load(), 3U);
      EXPECT_EQ(page.shard.requests.load(), 2U * 4) << "the initial ones too";
      EXPECT_EQ(page.staleness[0].load(), 2U * 3);
    }
    world.leave().or_throw();
  });
}

TEST(TableInsight, CountsWhatCompressionCostsAndSaves) {
  const TempFolder folder;
  run_on(2, [&](World& world) {
    pslib::ParameterServer server(world, {.metrics_folder = folder.path().string()});
    pslib::TableOptions options(pslib::Optimizer::sgd(1.0F));
    options.compression = pslib::Compression::top_k(0.25F);
    auto table = server.table("model", {{"a", Shape{100}}}, options);
    table.initialize().or_throw();
    std::ranges::fill(table.gradient("a").as<float>(), 2.0F);
    for (int step = 0; step < 3; ++step) table.push_pull().or_throw();
    for (const stats::TableView& view : pages()) {
      const stats::TablePage& page = view.page();
      if (page.rank != world.rank()) continue;
      EXPECT_EQ(page.worker.bytes_pushed.get(), 3U * 256) << "25 of 8 bytes, in cache lines";
      EXPECT_EQ(page.compression.bytes_spared.load(), 3U * (112 * 4 - 256));
      EXPECT_GT(page.compression.nanoseconds.load(), 0U);
    }
    EXPECT_DOUBLE_EQ(table.compression().residual_norm, std::sqrt(25.0 * (4 * 4 + 2 * 2 + 6 * 6)))
        << "of four quarters, all but the one sent last";
    world.leave().or_throw();
  });
  const std::string labels = R"({server="ps",table="model",rank="0"})";
  const std::string file = text_of(folder.path() / "ps.model.0.prom");
  EXPECT_TRUE(contains(file, "weft_ps_spared_bytes_total" + labels + " 576\n")) << file;
  EXPECT_TRUE(contains(file, "weft_ps_residual_norm" + labels)) << file;
  EXPECT_TRUE(contains(file, "weft_ps_compressing_seconds_total" + labels)) << file;
}

}  // namespace
}  // namespace weft::tests
