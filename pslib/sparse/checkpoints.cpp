#include "pslib/sparse/checkpoints.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "pslib/optimizer/rules.hpp"

namespace weft::pslib {
namespace {

// The arrays of a file in file order; rows with parameters come first.
struct RowArrays {
  RowArrays(const RowRules& rules, std::uint64_t rows, std::uint64_t stored)
      : ids{"ids", StoredType::u64, {rows}},
        last_use{"last_use", StoredType::u64, {rules.expire_after > 0 ? rows : 0}},
        values{"rows", StoredType::f32, {stored, 1 + rules.states, rules.dim}},
        lookups{"lookups", StoredType::u32, {rules.admit_after > 0 ? rows : 0}} {}

  ArraySpec ids;
  ArraySpec last_use;
  ArraySpec values;
  ArraySpec lookups;
};

// Row numbers in the order of writing, and for each chunk the number of occupied places.
struct Order {
  explicit Order(const RowCut& cut) : at_place(cut.chunks() * RowCut::kChunk, RowIndex::kNone) {
    const auto& places = cut.book().places;
    for (std::uint32_t i = 0; i < places.size(); ++i)
      if (places[i] != RowIndex::kNone) at_place[places[i]] = i;
    numbers.reserve(places.size());
    std::ranges::copy_if(at_place, std::back_inserter(numbers),
                         [](std::uint32_t number) { return number != RowIndex::kNone; });
    stored = numbers.size();
    for (std::uint32_t i = 0; i < places.size(); ++i)
      if (places[i] == RowIndex::kNone) numbers.push_back(i);
  }

  std::vector<std::uint32_t> at_place;
  std::vector<std::uint32_t> numbers;
  std::size_t stored = 0;
};

constexpr std::size_t kBatch = 1 << 14;

template <typename T>
void append(ShardFileWriter& file, const Order& order, const std::vector<T>& values) {
  if (values.empty()) return;
  std::vector<T> batch;
  batch.reserve(kBatch);
  for (std::size_t i = 0; i < order.numbers.size(); ++i) {
    batch.push_back(values[order.numbers[i]]);
    if (batch.size() < kBatch && i + 1 < order.numbers.size()) continue;
    file.append(std::as_bytes(std::span(batch)));
    batch.clear();
  }
}

void append_rows(ShardFileWriter& file, const Order& order, RowCut& cut) {
  const std::size_t width = cut.width();
  std::vector<float> chunk(RowCut::kChunk * width);
  for (std::size_t i = 0; i < cut.chunks(); ++i) {
    cut.read_next(chunk.data());
    std::size_t rows = 0;
    for (std::size_t row = 0; row < RowCut::kChunk; ++row) {
      if (order.at_place[i * RowCut::kChunk + row] == RowIndex::kNone) continue;
      if (rows != row) std::copy_n(chunk.data() + row * width, width, chunk.data() + rows * width);
      ++rows;
    }
    file.append(std::as_bytes(std::span(chunk).first(rows * width)));
  }
}

// Restores a file's rows batch by batch. `is_own` is true if the file has only this server's rows.
void restore_file(const ShardFile& file, const SparseDescription& table, std::size_t server,
                  bool is_own, RowStore& to) {
  const RowRules rules = table.row_rules();
  const std::uint64_t rows = file.arrays().at("ids").shape.front();
  const std::uint64_t stored = file.arrays().at("rows").shape.front();
  const RowArrays arrays(rules, rows, stored);
  const auto& ids_at = file.array(arrays.ids);
  const auto& last_use_at = file.array(arrays.last_use);
  const auto& values_at = file.array(arrays.values);
  const auto& lookups_at = file.array(arrays.lookups);
  const std::size_t width = rules.dim * (1 + rules.states);
  const auto read = [&](const ShardFile::Entry& from, std::uint64_t first, auto values) {
    if (from.elements > 0)
      file.read(from, static_cast<std::int64_t>(first), std::as_writable_bytes(values));
  };

  std::vector<std::uint64_t> ids(RowCut::kChunk);
  std::vector<std::uint64_t> last_use(RowCut::kChunk);
  std::vector<std::uint32_t> lookups(RowCut::kChunk);
  std::vector<float> values(RowCut::kChunk * width);
  for (std::uint64_t first = 0; first < rows; first += RowCut::kChunk) {
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(RowCut::kChunk, rows - first));
    const auto with_values =
        static_cast<std::size_t>(std::min<std::uint64_t>(count, stored - std::min(stored, first)));
    read(ids_at, first, std::span(ids).first(count));
    read(last_use_at, first, std::span(last_use).first(count));
    read(lookups_at, first, std::span(lookups).first(count));
    if (with_values > 0)
      read(values_at, first * width, std::span(values).first(with_values * width));
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_ours = table.server_of(ids[i]) == server;
      if (is_own && !is_ours)
        refuse_file(file.path(), ids_at.offset + (first + i) * sizeof ids[i],
                    fmt::format("id {} is of another server's file", ids[i]));
      if (is_ours && !to.put_back(ids[i], lookups[i], last_use[i],
                                  i < with_values ? values.data() + i * width : nullptr))
        refuse_file(file.path(), ids_at.offset + (first + i) * sizeof ids[i],
                    fmt::format("id {} is there twice", ids[i]));
    }
  }
}

}  // namespace

Manifest manifest_of(const SparseDescription& table, std::uint64_t version) {
  const SparseOptions& options = table.options;
  return {.version = version,
          .updates = version,
          .rule = rule_name(options.optimizer),
          .states = states(options.optimizer),
          .tensors = {},
          .rows = SavedRows{.dim = options.dim,
                            .seed = options.seed,
                            .spread = options.spread,
                            .admit_after = options.admit_after,
                            .expire_after = options.expire_after}};
}

void write_rows(const os::Folder& folder, const std::string& name, RowCut& cut,
                const RowRules& rules, const Failpoint& failpoint) {
  struct Ending {
    RowCut& cut;
    ~Ending() { cut.end(); }
  } const ending{cut};
  const Order order(cut);
  const RowArrays arrays(rules, order.numbers.size(), order.stored);
  ShardFileWriter file(folder, name, {arrays.ids, arrays.last_use, arrays.values, arrays.lookups},
                       failpoint);
  append(file, order, cut.book().ids);
  append(file, order, cut.book().last_use);
  append_rows(file, order, cut);
  append(file, order, cut.book().lookups);
  file.commit();
}

void restore_rows(const Checkpoint& from, const SparseDescription& table, std::size_t server,
                  RowStore& to) {
  const auto files = from.files();
  if (files.size() == table.roles.servers.size())
    return restore_file(files[server], table, server, true, to);
  for (const ShardFile& file : files) restore_file(file, table, server, false, to);
}

}  // namespace weft::pslib
