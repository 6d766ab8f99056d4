#include "pslib/sparse/description.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/fail.hpp"
#include "pslib/optimizer/rules.hpp"
#include "pslib/sparse/request.hpp"
#include "pslib/table/start.hpp"

namespace weft::pslib {
namespace {

constexpr std::size_t kMostDim = 1 << 16;
constexpr std::size_t kMostRequestRows = 1 << 24;

// The options that sparse tables share with dense ones.
TableOptions common(const SparseOptions& options) {
  TableOptions common(options.optimizer);
  common.schedule = options.schedule;
  common.wire = options.wire;
  common.consistency = options.consistency;
  common.checkpoint = options.checkpoint;
  return common;
}

float as_sent(float value, DType wire) {
  const WireRows one(1, wire);
  std::array<std::byte, sizeof(float)> bytes;
  one.write(bytes.data(), &value, 1);
  one.read(&value, bytes.data(), 1);
  return value;
}

}  // namespace

SparseDescription::SparseDescription(const Roles& roles, std::string_view server, std::string table,
                                     const SparseOptions& options)
    : roles(roles),
      table(std::move(table)),
      options(options),
      prefix_(fmt::format("ps/{}{}/{}", server, roles.suffix(), this->table)) {
  check();
}

void SparseDescription::check() const {
  pslib::check(common(options));
  const auto refuse = [&](const std::string& message, const char* hint) {
    throw_error(Code::bad_argument, "sparse_table", fmt::format("table \"{}\": {}", table, message),
                hint);
  };
  if (options.dim == 0 || options.dim > kMostDim)
    refuse(fmt::format("rows of {} elements", options.dim),
           "give SparseOptions::dim 1 to 65536 elements");
  if (options.request_rows == 0 || options.request_rows > kMostRequestRows)
    refuse(fmt::format("requests of {} rows", options.request_rows),
           "give SparseOptions::request_rows 1 to 16777216 rows");
  if (!std::isfinite(options.spread) || options.spread < 0.0F)
    refuse(fmt::format("a spread of {}", options.spread), "give a finite one, 0 or above");
  // The largest initial value, as a lookup returns it.
  if (const float sent = as_sent(options.spread, options.wire);
      std::isinf(sent) || (sent == 0.0F && options.spread > 0.0F))
    refuse(
        fmt::format("a spread of {}, which is {} as {}", options.spread, sent, name(options.wire)),
        "give a spread that SparseOptions::wire can hold, or send f32");
  if (options.optimizer.kind == Optimizer::Kind::lars)
    refuse("lars needs norms over a whole tensor, which no server has",
           "take adagrad or adam, which scale every element by itself");
  if (options.consistency.kind == Consistency::Kind::k_of_n)
    refuse("servers might count different workers", "take bsp, ssp or async");
  if (roles.replicas > 1)
    refuse(fmt::format("its parameter server holds {} replicas of each shard", roles.replicas),
           "give sparse tables a parameter server of their own, without replicas");
  if (!is_asynchronous()) return;
  for (const int server : roles.servers)
    if (std::ranges::find(roles.workers, server) != roles.workers.end())
      refuse(fmt::format("it is {}, and its shards work at any time, but rank {} works too",
                         text(options.consistency), server),
             "let some ranks only serve: Options::dedicated_servers");
}

std::string SparseDescription::contract() const {
  std::string words = fmt::format(
      "sparse\nworkers [{}]\nservers [{}]\ndim {}\nseed {}\nspread {}\nadmit_after {}\n"
      "expire_after {}\nrequest_rows {}\n{}",
      fmt::join(roles.workers, ", "), fmt::join(roles.servers, ", "), options.dim, options.seed,
      options.spread, options.admit_after, options.expire_after, options.request_rows,
      text(common(options)));
  words += start_text(options.checkpoint);
  return words;
}

RowRules SparseDescription::row_rules() const noexcept {
  return {.dim = options.dim,
          .states = states(options.optimizer),
          .seed = options.seed,
          .spread = options.spread,
          .admit_after = options.admit_after,
          .expire_after = options.expire_after};
}

std::string SparseDescription::slot_name(std::string_view part) const {
  return fmt::format("{}/{}", prefix_, part);
}

PublishedSpec SparseDescription::requests(int server) const {
  return published(fmt::format("requests/{}", server),
                   request_bytes(options.request_rows, options.request_rows,
                                 wire_rows().bytes(options.request_rows)));
}

PublishedSpec SparseDescription::answers(int worker) const {
  return published(fmt::format("answers/{}", worker),
                   answer_bytes(wire_rows().bytes(options.request_rows)));
}

// Needs no further buffers: a request is written after the answer to the last one arrived, and an
// answer after the next request arrived, so the previous message has been read.
PublishedSpec SparseDescription::published(std::string_view part, std::size_t bytes) const {
  PublishedSpec spec;
  spec.name = slot_name(part);
  spec.dtype = DType::u8;
  spec.shape = Shape{static_cast<std::int64_t>(bytes)};
  spec.flow = Flow::unsafe_synchronous;
  return spec;
}

}  // namespace weft::pslib
