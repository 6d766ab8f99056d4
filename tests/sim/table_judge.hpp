// The state of going through a table's history.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tests/sim/push_code.hpp"
#include "tests/sim/table_history.hpp"

namespace weft::tests {

/// Throws std::runtime_error, with what is wrong, from whichever call finds it. `history` must
/// outlive it. See judge().
class TableJudge {
 public:
  explicit TableJudge(const TableHistory& history);
  void take(const TableEvent& event);
  /// Compares all pulls of a job with each other. Call it when the job is over.
  void settle() const;

 private:
  struct Worker {
    std::size_t pushed = 0;
    std::size_t before = 0;  // of these in former jobs
    bool is_gone = false;    // dead, or has closed the table
    std::uint64_t version = 0;
    std::vector<PushShares> seen{};  // by cell; empty before the first pull
  };
  struct Pull {
    std::size_t worker;
    std::size_t gone;  // workers
    std::uint64_t version;
    const std::vector<std::size_t>& contributors;
    std::vector<std::uint64_t> versions{};  // by cell
  };
  /// By version: the pushes that made it.
  using Versions = std::map<std::uint64_t, PushShares>;

  void begin(const TableEvent& event);
  void pull(const TableEvent& event);
  std::vector<PushShares> read(const TableEvent& event) const;
  /// The pushes of this job, or of those before.
  PushShares part(PushShares shares, bool of_this_job) const;
  std::uint64_t version_of(const PushShares& shares, std::size_t worker) const;
  void check_pushes(const PushShares& shares, std::size_t reader) const;
  void check_start(std::size_t cell, const PushShares& shares, std::size_t reader);
  void check_own(const PushShares& shares, std::size_t cell, std::uint64_t version,
                 std::size_t reader) const;
  void check_others(const PushShares& shares, std::uint64_t version, std::size_t reader) const;
  void learn(std::size_t cell, std::uint64_t version, const PushShares& shares, std::size_t reader);
  void check_contributors(const Pull& pull) const;
  std::vector<std::size_t> news(std::size_t cell, std::uint64_t version, bool& is_next) const;
  bool may_drop() const noexcept;
  std::size_t gone() const noexcept;

  const TableHistory& history_;
  const PushCode code_;
  std::vector<Worker> workers_;
  std::uint64_t start_ = 0;  // version
  std::vector<std::size_t> shards_;
  std::vector<Versions> known_;                     // by cell
  std::vector<std::optional<PushShares>> started_;  // by cell: what former jobs left in it
  std::vector<Pull> pulls_;                         // of this job
};

}  // namespace weft::tests
