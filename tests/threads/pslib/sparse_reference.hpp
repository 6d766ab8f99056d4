// A reference sparse table by its definition: one thread, every row by itself.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "base/kernels/combine.hpp"
#include "pslib/optimizer/rules.hpp"
#include "pslib/optimizer/updater.hpp"
#include "pslib/sparse/row_store.hpp"
#include "weft/sparse_table.hpp"

namespace weft::tests {

using Ids = std::vector<std::uint64_t>;

/// A batch of one worker's gradients.
struct Push {
  Ids ids;
  std::vector<float> gradients;
};

/// `values` after the transfer between a worker and a server of a table with wire type `wire`.
inline std::vector<float> as_sent(std::vector<float> values, DType wire) {
  if (wire == DType::f32) return values;
  std::vector<std::byte> sent(values.size() * size_of(wire));
  kernels::narrow(sent.data(), wire, values.data(), values.size());
  kernels::widen(values.data(), sent.data(), wire, values.size());
  return values;
}

/// A table in one thread. Its rows are looked up unrounded, in f32.
class SerialTable {
 public:
  explicit SerialTable(const pslib::SparseOptions& options)
      : options_(options),
        rules_{.dim = options.dim, .seed = options.seed, .spread = options.spread} {}

  /// One worker's batch, as one call looks it up.
  std::vector<float> look_up(const Ids& ids) {
    std::map<std::uint64_t, bool> counted;
    std::vector<float> rows;
    for (const std::uint64_t id : ids) {
      Row& row = at(id, version_);
      if (!std::exchange(counted[id], true)) ++row.lookups;
      row.last_use = version_;
      rows.insert(rows.end(), row.values.begin(),
                  row.values.begin() + static_cast<std::ptrdiff_t>(options_.dim));
    }
    return rows;
  }

  /// One update from every worker's push, in rank order; each row's gradients are rounded to
  /// `wire`.
  void update(std::span<const Push> pushes, DType wire) {
    std::map<std::uint64_t, std::vector<std::vector<float>>> gradients;
    for (const Push& push : pushes)
      for (auto& [id, sum] : combined(push)) gradients[id].push_back(as_sent(std::move(sum), wire));
    ++version_;
    for (const auto& [id, of_workers] : gradients) {
      Row& row = at(id, version_);
      if (row.lookups < options_.admit_after) continue;
      row.last_use = version_;
      apply(row, of_workers, pushes.size());
    }
  }

  std::uint64_t version() const { return version_; }

 private:
  struct Row {
    std::vector<float> values;  // parameters, then each state
    std::uint32_t lookups = 0;
    std::uint64_t last_use = 0;
  };

  Row& at(std::uint64_t id, std::uint64_t version) {
    const auto [found, is_new] = rows_.try_emplace(id);
    Row& row = found->second;
    if (is_new || (options_.expire_after > 0 && version > row.last_use + options_.expire_after)) {
      row = {.values = {}, .last_use = version};
      row.values.resize(options_.dim * (1 + pslib::states(options_.optimizer)));
      pslib::initial_row(rules_, id, row.values.data());
    }
    return row;
  }

  // The gradients of an id that occurs several times are added up in the batch's order.
  std::map<std::uint64_t, std::vector<float>> combined(const Push& push) const {
    std::map<std::uint64_t, std::vector<float>> sums;
    for (std::size_t i = 0; i < push.ids.size(); ++i) {
      const std::span gradient(push.gradients.data() + i * options_.dim, options_.dim);
      auto& sum = sums[push.ids[i]];
      if (sum.empty()) {
        sum.assign(gradient.begin(), gradient.end());
        continue;
      }
      for (std::size_t k = 0; k < options_.dim; ++k) sum[k] += gradient[k];
    }
    return sums;
  }

  // A dense table of this row alone; a worker without a gradient for the row contributes zeros.
  void apply(Row& row, const std::vector<std::vector<float>>& gradients, std::size_t workers) {
    pslib::TableOptions options(options_.optimizer);
    options.schedule = options_.schedule;
    const auto dim = static_cast<std::int64_t>(options_.dim);
    pslib::Updater updater(options, 1, dim, workers);
    updater.resume(version_ - 1);
    for (std::size_t i = 0; i < pslib::states(options_.optimizer); ++i)
      std::copy_n(row.values.data() + (1 + i) * options_.dim, options_.dim, updater.state(i));
    updater.begin(workers);
    const std::vector<float> zeros(options_.dim);
    std::vector<pslib::Source> sources(workers, {reinterpret_cast<const std::byte*>(zeros.data())});
    for (std::size_t i = 0; i < gradients.size(); ++i)
      sources[i].at = reinterpret_cast<const std::byte*>(gradients[i].data());
    updater.apply({0, 0, dim}, row.values.data(), row.values.data(), sources);
    for (std::size_t i = 0; i < pslib::states(options_.optimizer); ++i)
      std::copy_n(updater.state(i), options_.dim, row.values.data() + (1 + i) * options_.dim);
  }

  pslib::SparseOptions options_;
  pslib::RowRules rules_;
  std::map<std::uint64_t, Row> rows_;
  std::uint64_t version_ = 0;
};

}  // namespace weft::tests
