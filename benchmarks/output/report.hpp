// The output of a benchmark: a table for people, JSON for programs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "benchmarks/driver/driver.hpp"

namespace weft::bench {

/// Measurements of another program that does the same work. Ratios are of times: below 1, weft is
/// faster.
struct Comparison {
  double us = 0;      ///< median
  double ratio = 0;   ///< weft's time / this one's: median over the pairs
  double spread = 0;  ///< interquartile range of that ratio, relative to its median
  /// The same ratio for weft's call without a plan, as the peers have no plans; 0 unless the row is
  /// a collective, and 0 for another build of weft, which has plans.
  double once_ratio = 0;
};

struct Row {
  std::size_t size = 0;
  std::string kind;
  int ranks = 2;
  double weft_us = 0;
  Comparison limit;
  std::map<std::string, double> limit_ways;  ///< "limit_memcpy" and so on: microseconds, medians
  std::map<std::string, Comparison> peers;   ///< and another build of weft, as kAgainst
  /// This build's limit / the other's, the median over the pairs; 0 without another build.
  double limit_against = 0;
  std::map<std::string, double> figures;  ///< what weft's runs saw besides; medians

  /// True if the ranks share processors: the time then depends on the scheduler too.
  bool is_crowded(unsigned processors) const noexcept {
    return static_cast<unsigned>(ranks) > processors;
  }
  /// The sum over all receivers.
  double gigabytes_per_second() const noexcept {
    return static_cast<double>(size) * (ranks - 1) / weft_us / 1000;
  }
  /// The peers that are quicker than the limit by more than the spread of their ratios: something
  /// better can be done than what the limit does.
  std::vector<std::string> peers_beyond_limit() const;
  /// The spread of the ratio to another build, else to Open MPI, else to the limit: the first of
  /// these that was measured.
  double spread() const;
};

/// The size in the form of --sizes, as "64k".
std::string size_text(std::size_t size);

/// Microseconds, with three decimals below 10 and one above.
std::string time_text(double us);

std::vector<Row> summarise(const Results& results);

/// The rows as text, with a line of headings. Rows with more ranks than processors are marked.
/// Throws std::runtime_error for an unknown benchmark.
std::string table(const std::string& benchmark, const std::vector<Row>& rows,
                  const Machine& machine);

/// The rows as a JSON document.
std::string json(const std::string& benchmark, const std::vector<Row>& rows,
                 const Machine& machine);

/// Throws std::runtime_error, with the reason, if the file can't be written.
void write_file(const std::string& file, const std::string& text);
/// Likewise.
void write_json(const std::string& file, const std::string& benchmark, const std::vector<Row>& rows,
                const Machine& machine);

}  // namespace weft::bench
