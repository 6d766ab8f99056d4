// A stretch of memory that other processes can map: a sealed memfd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/os/fd.hpp"
#include "base/os/fork_mark.hpp"
#include "base/os/mapping.hpp"

namespace weft::p2p {

/// The access that other processes have to a segment.
enum class Access : std::uint8_t { read, write };

/// A memfd and this process's mapping of it. A segment has no name in any file system, so nothing
/// is left behind when its processes die.
struct Segment {
  os::Fd fd;  ///< empty for private memory, which has no memfd
  std::shared_ptr<os::Mapping> mapping;
  bool huge_pages_advised = false;
};

/// The pages that a segment requests; others are used where these are not available.
struct PageKind {
  bool huge = false;
  int numa = -1;  ///< the NUMA node; -1: any
  /// All pages come from these NUMA nodes; empty: from any.
  std::vector<int> allowed_numa{};
};

/// Creates shared memory whose pages all exist before this returns, so that no later access raises
/// SIGBUS. Seals the memfd against shrinking and growing. Throws Error(exhausted) with the request
/// and the limit that refused it. If `others` is Access::read and the kernel supports it (5.1),
/// also seals the memfd against every writable mapping but the creator's; on older kernels
/// read-only access by others is a convention.
Segment create_shared_segment(std::size_t bytes, const PageKind& pages, const std::string& label,
                              Access others);
/// Creates anonymous memory that is never exported; all its pages exist.
Segment create_private_segment(std::size_t bytes, const PageKind& pages);
/// Like create_private_segment(), but pages are allocated on first touch: for tests with thousands
/// of ranks.
Segment create_lazy_segment(std::size_t bytes);

/// Maps memfds, each once per process: ranks that share a process share one mapping of a segment,
/// so that ThreadSanitizer sees their accesses as accesses to the same memory. Thread-safe.
class SegmentMapper {
 public:
  /// Registers an existing mapping as that of `fd`.
  void add(const os::Fd& fd, std::shared_ptr<os::Mapping> mapping);
  /// Maps the `bytes` of `fd`, after checking the memfd's size and seals. Throws Error(system) if
  /// they are wrong. A rank of the creator's process gets the creator's own mapping, which is
  /// writable.
  std::shared_ptr<os::Mapping> map(const os::Fd& fd, std::size_t bytes, Access access);
  /// The mapping of a segment that the range lies in, perhaps for reading only; null: there is
  /// none.
  std::shared_ptr<const os::Mapping> find(const std::byte* data, std::size_t bytes);
  /// Detects forks of this process, in which no segment is mapped.
  const os::ForkMark& fork_mark() const noexcept { return fork_mark_; }

 private:
  using FileId = std::pair<std::uint64_t, std::uint64_t>;  // device, inode
  static FileId identify(const os::Fd& fd);

  const os::ForkMark fork_mark_;
  std::mutex mutex_;
  std::map<FileId, std::weak_ptr<os::Mapping>> mappings_;
  std::vector<std::weak_ptr<os::Mapping>> readable_;  ///< for reading only: find() alone sees these
};

}  // namespace weft::p2p
