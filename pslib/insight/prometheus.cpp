#include "pslib/insight/prometheus.hpp"

#include <fmt/format.h>

#include <bit>
#include <span>
#include <string_view>
#include <utility>

namespace weft::pslib {
namespace {

// Characters that must be escaped in a label's value.
std::string escaped(std::string_view text) {
  std::string words;
  for (const char c : text) {
    if (c == '\n') {
      words += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') words += '\\';
    words += c;
  }
  return words;
}

class Lines {
 public:
  explicit Lines(std::string labels) : labels_(std::move(labels)) {}

  void add(std::string_view name, std::string_view type, std::string_view help, double value) {
    head(name, type, help);
    text_ += fmt::format("weft_ps_{}{{{}}} {}\n", name, labels_, value);
  }
  void counter(std::string_view name, std::string_view help, const stats::Counter& value) {
    add(name, "counter", help, static_cast<double>(value.get()));
  }
  void counter(std::string_view name, std::string_view help, const stats::Word& value) {
    add(name, "counter", help, static_cast<double>(value.load(std::memory_order_relaxed)));
  }
  void gauge(std::string_view name, std::string_view help, const stats::Word& value) {
    add(name, "gauge", help, static_cast<double>(value.load(std::memory_order_relaxed)));
  }
  void seconds(std::string_view name, std::string_view help, std::uint64_t ns) {
    add(name, "counter", help, static_cast<double>(ns) / 1e9);
  }
  // Buckets are cumulative; the sum counts the last word, "or more", at its lower bound.
  void histogram(std::string_view name, std::string_view help,
                 std::span<const stats::Word> counts) {
    head(name, "histogram", help);
    std::uint64_t all = 0;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::uint64_t count = counts[i].load(std::memory_order_relaxed);
      all += count;
      sum += i * count;
      if (i + 1 < counts.size())
        text_ += fmt::format("weft_ps_{}_bucket{{{},le=\"{}\"}} {}\n", name, labels_, i, all);
    }
    text_ += fmt::format(
        "weft_ps_{0}_bucket{{{1},le=\"+Inf\"}} {2}\nweft_ps_{0}_sum{{{1}}} {3}\n"
        "weft_ps_{0}_count{{{1}}} {2}\n",
        name, labels_, all, sum);
  }
  std::string take() { return std::move(text_); }

 private:
  void head(std::string_view name, std::string_view type, std::string_view help) {
    text_ += fmt::format("# HELP weft_ps_{0} {1}\n# TYPE weft_ps_{0} {2}\n", name, help, type);
  }

  const std::string labels_;
  std::string text_;
};

void add_worker(Lines& lines, const stats::TableWorkerLine& worker) {
  lines.counter("pushes_total", "Pushes of this worker.", worker.pushes);
  lines.counter("pulls_total", "Pulls or lookups of this worker.", worker.pulls);
  lines.counter("pushed_bytes_total", "Bytes of gradients pushed.", worker.bytes_pushed);
  lines.counter("pulled_bytes_total", "Bytes of parameters pulled.", worker.bytes_pulled);
  lines.counter("pushed_rows_total", "Rows of gradients pushed.", worker.rows_pushed);
  lines.counter("pulled_rows_total", "Rows of parameters pulled.", worker.rows_pulled);
  lines.seconds("waited_seconds_total", "Time of this worker in pulls.", worker.waited_ns.get());
  lines.gauge("worker_version", "Version of the values pulled last.", worker.version);
}

void add_compression(Lines& lines, const stats::TableCompressionLine& line) {
  if (line.bytes_spared.load(std::memory_order_relaxed) == 0) return;
  lines.counter("spared_bytes_total", "Bytes of gradients that compression has left out.",
                line.bytes_spared);
  lines.seconds("compressing_seconds_total", "Time of this worker in compressing.",
                line.nanoseconds.load(std::memory_order_relaxed));
  lines.add("residual_norm", "gauge", "Norm of the residual that the last push left for the next.",
            std::bit_cast<double>(line.residual_norm.load(std::memory_order_relaxed)));
}

void add_gpu(Lines& lines, const stats::GpuCounters& gpu) {
  if (gpu.device_copies.get() == 0) return;
  lines.counter("staged_bytes_total", "Bytes copied between host memory and this worker's GPU.",
                gpu.staged_bytes);
  lines.counter("device_copies_total", "Copies that took.", gpu.device_copies);
}

void add_shard(Lines& lines, const stats::TablePage& page) {
  const stats::TableShardLines& shard = page.shard;
  lines.gauge("shard_version", "Updates that the shard has made.", shard.version);
  lines.counter("requests_total", "Pushes and lookups taken.", shard.requests);
  lines.gauge("queue", "Requests that wait for others.", shard.queue);
  lines.seconds("busy_seconds_total", "Time of a rank that only serves in this table's work.",
                shard.busy_ns.get());
  lines.counter("applied_total", "Pushes applied.", shard.applied);
  lines.counter("folded_total", "Late pushes folded into a later update.", shard.folded);
  lines.counter("dropped_total", "Late pushes dropped.", shard.dropped);
  lines.counter("read_bytes_total", "Bytes read from workers.", shard.bytes_read);
  lines.counter("written_bytes_total", "Bytes written for workers.", shard.bytes_written);
  lines.gauge("memory_bytes", "Memory of parameters and states.", shard.memory);
  if (page.is_sparse != 0) {
    lines.gauge("rows", "Rows known.", shard.rows);
    lines.counter("looked_up_rows_total", "Rows answered.", shard.rows_looked_up);
    lines.counter("updated_rows_total", "Rows updated.", shard.rows_updated);
    lines.counter("not_admitted_total", "Gradients of rows that are not admitted.",
                  shard.gradients_not_admitted);
  }
  lines.histogram("staleness", "Pushes by the age in versions of the values they came from.",
                  page.staleness);
}

}  // namespace

std::string prometheus_text(const stats::TablePage& page) {
  Lines lines(fmt::format("server=\"{}\",table=\"{}\",rank=\"{}\"", escaped(page.server.data()),
                          escaped(page.table.data()), page.rank));
  if (page.works != 0) {
    add_worker(lines, page.worker);
    add_compression(lines, page.compression);
    add_gpu(lines, page.gpu);
  }
  if (page.serves != 0) add_shard(lines, page);
  return lines.take();
}

}  // namespace weft::pslib
