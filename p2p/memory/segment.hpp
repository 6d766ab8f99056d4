// One stretch of memory that other processes can map: a sealed memfd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/os/fd.hpp"
#include "base/os/fork_mark.hpp"
#include "base/os/mapping.hpp"

namespace weft::p2p {

/// What other processes may do with a segment.
enum class Access : std::uint8_t { read, write };

/// A memfd and this process's mapping of it. Nothing of it has a name in any file system, so
/// nothing is left behind when its processes die.
struct Segment {
  os::Fd fd;  ///< closed for private memory, which has none
  std::shared_ptr<os::Mapping> mapping;
  bool huge_pages_advised = false;
};

/// What pages a segment asks for; it takes others where these can't be had.
struct PageKind {
  bool huge = false;
  int numa = -1;  ///< the NUMA node; -1: any
};

/// Memory that exists: every page is there before this returns, so that no later touch can be a
/// SIGBUS. The memfd is sealed against shrinking and growing. Throws Error(exhausted) with what was
/// asked and what stood against it. `others`: read seals it against every writable mapping but the
/// creator's, where the kernel can (5.1); otherwise their mapping it for reading is a courtesy.
Segment create_shared_segment(std::size_t bytes, PageKind pages, const std::string& label,
                              Access others);
/// Anonymous memory that is never exported.
Segment create_private_segment(std::size_t bytes, PageKind pages);
/// The same, but a page exists only once it is touched: for tests with very many ranks.
Segment create_lazy_segment(std::size_t bytes);

/// Maps memfds, each once: ranks that share a process share one mapping of a segment, so that a
/// thread sanitizer sees their accesses as accesses to the same memory. Thread-safe.
class SegmentMapper {
 public:
  /// Makes an existing mapping known as that of `fd`.
  void add(const os::Fd& fd, std::shared_ptr<os::Mapping> mapping);
  /// The mapping of a segment of `bytes`; verifies that the memfd has that size and its seals.
  /// Throws Error(system) otherwise. A rank of the same process gets the creator's own mapping,
  /// which is writable.
  std::shared_ptr<os::Mapping> map(const os::Fd& fd, std::size_t bytes, Access access);
  /// Tells forks of this process, where none of the segments is mapped.
  const os::ForkMark& fork_mark() const noexcept { return fork_mark_; }

 private:
  using FileId = std::pair<std::uint64_t, std::uint64_t>;  // device, inode
  static FileId identify(const os::Fd& fd);

  const os::ForkMark fork_mark_;
  std::mutex mutex_;
  std::map<FileId, std::weak_ptr<os::Mapping>> mappings_;
};

}  // namespace weft::p2p
