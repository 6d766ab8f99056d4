// The list of benchmarks: the subject, sizes and requirements of each.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace weft::bench {

/// A command line that makes no sense.
class BadOption : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Bytes of a tensor beyond which a run measures as little as it can, for want of memory.
inline constexpr std::size_t kHuge = std::size_t{1} << 30;

struct Description {
  std::string_view name;
  std::string_view what;  ///< one operation and its limit, in a line
  std::vector<std::size_t> sizes;
  std::vector<std::size_t> quick_sizes;
  std::size_t most = 0;         ///< bytes, of --sizes
  std::size_t least = 1;        ///< bytes, of --sizes
  std::size_t multiple_of = 1;  ///< bytes, of --sizes
  /// The bytes that all ranks of one run hold at once, in tensors of `size` bytes, including the
  /// limit's.
  std::size_t (*memory)(std::size_t size, int ranks) = nullptr;
  unsigned budget_factor = 1;  ///< of the time to measure a row in
  /// Programs that do the same work, as --peers names them.
  std::vector<std::string_view> peers = {};
  bool has_perftest = false;      ///< runs by RDMA, beside linux-rdma's perftest
  bool moves_bytes = true;        ///< so that bytes by time mean something
  bool has_readers = false;       ///< run with every number of readers asked for
  bool is_collective = false;     ///< run with every number of ranks asked for
  bool between_hosts = false;     ///< works without memory that its ranks share
  std::vector<int> ranks = {2};   ///< of a run; a collective's where none are asked for
  bool sizes_in_one_run = false;  ///< else a run for each, unless they are --quick
  /// Kinds of row, each of which has a run of its own for tensors above kHuge.
  std::vector<std::string_view> kinds_apart = {};
};

/// All benchmarks, in the order in which they are listed.
std::span<const Description> catalogue();

/// Throws BadOption, with the list of names, if `name` is not one of them.
const Description& description_of(std::string_view name);

/// Throws BadOption unless the benchmark can run with each of `sizes`; the error gives the
/// reason for the first size that can't.
void check_sizes(const Description& benchmark, std::span<const std::size_t> sizes);

/// A line for each benchmark, for --help.
std::string help_text();

}  // namespace weft::bench
