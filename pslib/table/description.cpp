#include "pslib/table/description.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <unordered_set>

#include "base/fail.hpp"
#include "pslib/optimizer/rules.hpp"
#include "pslib/replication/replica_words.hpp"
#include "pslib/table/slot_words.hpp"
#include "pslib/table/start.hpp"

namespace weft::pslib {
namespace {

// The newest version, the next one, and two that readers may be fetching.
constexpr std::uint32_t kAsyncDepth = 4;

std::vector<TensorSpec> checked(const std::string& table, std::vector<TensorSpec> specs) {
  if (specs.empty())
    throw_error(Code::bad_argument, "table", fmt::format("table \"{}\" has no tensors", table),
                "list at least one TensorSpec");
  std::unordered_set<std::string_view> names;
  for (const TensorSpec& spec : specs) {
    if (spec.shape.elements() == 0)
      throw_error(Code::bad_argument, "table",
                  fmt::format("tensor \"{}\" of table \"{}\" has no elements: {}", spec.name, table,
                              spec.shape.text()),
                  "leave it out, or give every dimension at least one element");
    if (!names.insert(spec.name).second)
      throw_error(Code::bad_argument, "table",
                  fmt::format("table \"{}\" lists tensor \"{}\" twice", table, spec.name),
                  "give every tensor a name of its own");
  }
  return specs;
}

const TableOptions& checked(const TableOptions& options) {
  check(options);
  return options;
}

// A rule that needs the whole table on one server makes the table a single shard; other servers may
// hold replicas.
std::vector<int> homes_of(const Roles& roles, const TableOptions& options) {
  const bool needs_one = options.consistency.kind == Consistency::Kind::k_of_n ||
                         options.clip_norm > 0.0F ||
                         options.optimizer.kind == Optimizer::Kind::lars;
  if (roles.replicas > 1 && needs_one) return {roles.servers.front()};
  return roles.servers;
}

}  // namespace

Description::Description(const Roles& roles, std::string_view server, std::string table,
                         std::vector<TensorSpec> specs, const TableOptions& options)
    : roles(roles),
      table(std::move(table)),
      specs(checked(this->table, std::move(specs))),
      options(checked(options)),
      homes(homes_of(roles, options)),
      pieces(make_shard_map(this->specs, homes, roles.split_bytes)),
      layout(this->specs),
      pushes(this->specs, layout.offsets(), layout.elements(), options),
      prefix_(fmt::format("ps/{}{}/{}", server, roles.suffix(), this->table)) {
  check_consistency();
  check_compression();
}

void Description::check_compression() const {
  if (!pushes.is_compressed()) return;
  const auto refuse = [&](const std::string& message, const char* hint) {
    throw_error(Code::bad_argument, "table",
                fmt::format("table \"{}\" is compressed by {}: {}", table,
                            text(options.compression), message),
                hint);
  };
  if (pushes.bytes() >= pushes.bytes_before())
    refuse(fmt::format("a push takes {} bytes, its gradients {}", pushes.bytes(),
                       pushes.bytes_before()),
           options.compression.kind == Compression::Kind::top_k
               ? "each of top_k's elements takes 8 bytes: use a lower ratio, or no compression"
               : "leave so small a table as it is");
  if (options.compression.kind != Compression::Kind::top_k) return;
  for (const TensorSpec& spec : specs)
    if (spec.shape.elements() > std::numeric_limits<std::uint32_t>::max())
      refuse(fmt::format("tensor \"{}\" has {} elements, whose places take more than 32 bits",
                         spec.name, spec.shape.elements()),
             "split it into several tensors, or use int8");
}

void Description::check_consistency() const {
  if (!is_asynchronous()) return;
  const std::string kind = text(options.consistency);
  const auto refuse = [&](const std::string& message, const char* hint) {
    throw_error(Code::bad_argument, "table",
                fmt::format("table \"{}\" is {}{}: {}", table, kind,
                            is_replicated() ? ", replicated" : "", message),
                hint);
  };
  for (const int server : roles.servers)
    if (std::ranges::find(roles.workers, server) != roles.workers.end())
      refuse(fmt::format("its shards work at any time, but rank {} works too", server),
             "let some ranks only serve: Options::dedicated_servers");
  if (options.consistency.kind == Consistency::Kind::k_of_n &&
      options.consistency.k > roles.workers.size())
    refuse(fmt::format("{} of {} workers", options.consistency.k, roles.workers.size()),
           "ask for as many as there are, or fewer");
  if (homes.size() == 1) return;
  if (options.consistency.kind == Consistency::Kind::k_of_n)
    refuse("servers might count different workers", "use one server for this table");
  if (options.clip_norm > 0.0F || options.optimizer.kind == Optimizer::Kind::lars)
    refuse("servers are not at the same update, so there is no norm over all of them",
           "use one server for this table, or bsp");
}

std::string Description::contract() const {
  std::string words =
      fmt::format("workers [{}]\nservers [{}]\nreplicas {}\nsplit_bytes {}\n{}{} tensors\n",
                  fmt::join(roles.workers, ", "), fmt::join(roles.servers, ", "), roles.replicas,
                  roles.split_bytes, text(options), specs.size());
  words += start_text(options.checkpoint);
  for (const TensorSpec& spec : specs)
    words += fmt::format("tensor \"{}\" {}\n", spec.name, spec.shape.text());
  return words;
}

std::string Description::shard_map() const {
  std::string words;
  for (const int server : homes) {
    std::string runs;
    std::int64_t elements = 0;
    for (const ShardPiece& piece : pieces) {
      if (piece.server != server) continue;
      elements += piece.count;
      runs += runs.empty() ? " " : ", ";
      runs += specs[piece.tensor].name;
      if (piece.count < specs[piece.tensor].shape.elements())
        runs += fmt::format("[{}, {})", piece.first, piece.first + piece.count);
    }
    words += fmt::format("server {}: {} bytes:{}\n", server,
                         static_cast<std::size_t>(elements) * sizeof(float),
                         runs.empty() ? " nothing" : runs);
  }
  return words;
}

std::string Description::slot_name(std::string_view part) const {
  return fmt::format("{}/{}", prefix_, part);
}

PublishedSpec Description::gradients() const {
  const DType dtype = pushes.is_compressed() ? DType::u8 : options.wire;
  const std::size_t width = size_of(dtype);
  const std::int64_t words = is_asynchronous() ? line_elements(GradientWords::kCount, width) : 0;
  return published("gradient", dtype, static_cast<std::int64_t>(pushes.bytes() / width) + words);
}

PublishedSpec Description::initial() const {
  return published("initial", options.wire, layout.elements());
}

std::size_t Description::bytes_read(std::int64_t elements) const noexcept {
  if (!pushes.is_compressed()) return static_cast<std::size_t>(elements) * size_of(options.wire);
  const double share = static_cast<double>(elements) / static_cast<double>(layout.elements());
  return static_cast<std::size_t>(share * static_cast<double>(pushes.bytes()));
}

PublishedSpec Description::region(int home) const {
  const std::string part = is_replicated() ? fmt::format("parameters/{}", home) : "parameters";
  PublishedSpec spec =
      published(part, options.wire, region_words() + region_elements(pieces, home));
  if (!is_asynchronous()) return spec;
  spec.flow = Flow::credits;
  spec.depth = kAsyncDepth;
  return spec;
}

std::int64_t Description::region_words() const noexcept {
  if (!is_asynchronous()) return 0;
  return line_elements(RegionWords::count(roles.workers.size()), size_of(options.wire));
}

PublishedSpec Description::state() const {
  const std::size_t sections = is_replicated() ? homes.size() : 1;
  return words("state", sections * StateWords::count(roles.workers.size()));
}

PublishedSpec Description::replica_words() const {
  return words("replica", homes.size() * ReplicaWords::count(roles.workers.size()));
}

PublishedSpec Description::snapshot(std::size_t shard, std::size_t bytes) const {
  PublishedSpec spec =
      published(fmt::format("snapshot/{}", shard), DType::u8, static_cast<std::int64_t>(bytes));
  spec.flow = Flow::credits;
  return spec;
}

PublishedSpec Description::words(std::string_view part, std::size_t count) const {
  PublishedSpec spec = published(part, DType::i64, static_cast<std::int64_t>(count));
  spec.flow = Flow::credits;
  spec.depth = kAsyncDepth;
  return spec;
}

PublishedSpec Description::norms(std::size_t words) const {
  return published("norms", DType::i64, static_cast<std::int64_t>(words));
}

// A slot published in bulk-synchronous training. The protocol itself ensures that all readers are
// done with a buffer before it is written again.
PublishedSpec Description::published(std::string_view part, DType dtype,
                                     std::int64_t elements) const {
  PublishedSpec spec;
  spec.name = slot_name(part);
  spec.dtype = dtype;
  spec.shape = Shape{elements};
  spec.flow = Flow::unsafe_synchronous;
  return spec;
}

}  // namespace weft::pslib
