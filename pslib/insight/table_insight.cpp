#include "pslib/insight/table_insight.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "base/os/folder.hpp"
#include "base/stats/recorder.hpp"
#include "pslib/insight/prometheus.hpp"
#include "runtime/world/services.hpp"

namespace weft::pslib {
namespace {

constexpr std::uint64_t kEvery = 1'000'000'000;  // ns

void set(stats::Word& word, std::uint64_t value) noexcept {
  word.store(value, std::memory_order_relaxed);
}

std::string name_of(const stats::TableAbout& about) {
  std::string name = fmt::format("{}.{}.{}.prom", about.server, about.table, about.rank);
  std::ranges::replace(name, '/', '_');
  return name;
}

}  // namespace

TableInsight::TableInsight(World& world, const stats::TableAbout& about, std::string folder)
    : stats_(about), folder_(std::move(folder)), name_(name_of(about)), log_(log_of(world)) {}

TableInsight::~TableInsight() {
  if (!folder_.empty()) write();
}

std::uint64_t TableInsight::now() noexcept { return stats::ns_of(Clock::now()); }

void TableInsight::pushed(std::uint64_t bytes, std::uint64_t rows) noexcept {
  stats::TableWorkerLine& line = stats_.page().worker;
  line.pushes.add(1);
  line.bytes_pushed.add(bytes);
  line.rows_pushed.add(rows);
}

void TableInsight::compressed(const CompressionStatistics& statistics) noexcept {
  stats::TableCompressionLine& line = stats_.page().compression;
  set(line.bytes_spared, statistics.bytes_spared);
  set(line.nanoseconds, statistics.nanoseconds);
  set(line.residual_norm, std::bit_cast<std::uint64_t>(statistics.residual_norm));
}

void TableInsight::staged(std::uint64_t bytes, std::uint64_t copies) noexcept {
  stats::GpuCounters& counters = stats_.page().gpu;
  counters.staged_bytes.add(bytes - counters.staged_bytes.get());
  counters.device_copies.add(copies - counters.device_copies.get());
}

void TableInsight::pulled(std::uint64_t bytes, std::uint64_t rows, std::uint64_t since) noexcept {
  stats::TableWorkerLine& line = stats_.page().worker;
  line.pulls.add(1);
  line.bytes_pulled.add(bytes);
  line.rows_pulled.add(rows);
  waited(since);
}

void TableInsight::waited(std::uint64_t since) noexcept {
  const std::uint64_t now = TableInsight::now();
  stats_.page().worker.waited_ns.add(now - since);
  show(now);
}

void TableInsight::reached(std::uint64_t version) noexcept {
  stats_.page().worker.version.store(version, std::memory_order_relaxed);
}

void TableInsight::served(std::uint64_t version, const ShardLoad& load,
                          const TableStatistics& pushes, std::uint64_t busy_ns) noexcept {
  stats::TablePage& page = stats_.page();
  stats::TableShardLines& lines = page.shard;
  lines.busy_ns.add(busy_ns);
  set(lines.version, version);
  set(lines.requests, load.requests);
  set(lines.queue, load.queue);
  set(lines.bytes_read, load.bytes_read);
  set(lines.bytes_written, load.bytes_written);
  set(lines.memory, load.memory);
  set(lines.rows, load.rows.rows);
  set(lines.rows_looked_up, load.rows.looked_up);
  set(lines.rows_updated, load.rows.updated);
  set(lines.gradients_not_admitted, load.rows.not_admitted);
  set(lines.applied, pushes.applied);
  set(lines.folded, pushes.folded);
  set(lines.dropped, pushes.dropped);
  static_assert(TableStatistics::kMostStaleness + 1 == stats::kStalenessWords);
  for (std::size_t i = 0; i < pushes.staleness.size(); ++i)
    set(page.staleness[i], pushes.staleness[i]);
  if (!folder_.empty()) show(now());
}

void TableInsight::show(std::uint64_t now) noexcept {
  if (folder_.empty() || now < due_) return;
  due_ = now + kEvery;
  write();
}

// Replaces the file atomically.
void TableInsight::write() noexcept {
  if (has_failed_) return;
  try {
    // Mode 0644, so that a metrics collector of another user can read it.
    os::Draft draft(os::Folder::open(folder_, "metrics"), name_, 0644);
    const std::string text = prometheus_text(stats_.page());
    draft.write(std::as_bytes(std::span(text)));
    draft.publish();
  } catch (const std::exception& error) {
    has_failed_ = true;
    log_->error(Subsystem::ps, "metrics are not written any more: {}", error.what());
  }
}

}  // namespace weft::pslib
