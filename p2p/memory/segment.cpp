#include "p2p/memory/segment.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/fail.hpp"
#include "base/os/numa.hpp"
#include "base/os/system_error.hpp"
#include "weft/error.hpp"

namespace weft::p2p {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void fail(Code code, const char* operation, int error) {
  std::string hint = os::hint_for(error);
  if (hint.empty())
    hint = "see WEFT_ARENA_CHUNK, WEFT_ARENA_MAX and the limits of the container (memory.max)";
  throw_error(code, operation, os::words(error), std::move(hint));
}

/// Best effort: a container may forbid both requests, and the preferred node may be full.
void choose_node(const os::Mapping& mapping, const PageKind& pages) {
  if (!pages.allowed_numa.empty() &&
      os::bind_numa(mapping.data(), mapping.bytes(), pages.allowed_numa, pages.numa))
    return;
  if (pages.numa >= 0) os::prefer_numa(mapping.data(), mapping.bytes(), pages.numa);
}

/// Requests huge pages and a NUMA node, then makes every page exist, so that a shortage shows here
/// as an error rather than later as a SIGBUS.
bool populate(const os::Mapping& mapping, const os::Fd& file, const PageKind& pages) {
  choose_node(mapping, pages);
  const bool advised = pages.huge && ::madvise(mapping.data(), mapping.bytes(), MADV_HUGEPAGE) == 0;
#if defined(MADV_POPULATE_WRITE)
  if (::madvise(mapping.data(), mapping.bytes(), MADV_POPULATE_WRITE) == 0) return advised;
  if (errno != EINVAL) fail(Code::exhausted, "madvise(MADV_POPULATE_WRITE)", errno);
#endif
  // Kernels before 5.14 lack MADV_POPULATE_WRITE. fallocate() creates a file's pages without
  // touching them; private pages must be touched.
  if (file && ::fallocate(file.get(), 0, 0, static_cast<off_t>(mapping.bytes())) != 0)
    fail(Code::exhausted, "fallocate", errno);
  for (std::size_t i = 0; i < mapping.bytes(); i += 4096) mapping.data()[i] = std::byte{0};
  return advised;
}

}  // namespace

Segment create_shared_segment(std::size_t bytes, const PageKind& pages, const std::string& label,
                              Access others) {
  Segment segment;
  segment.fd = os::Fd(::memfd_create(label.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (segment.fd.get() < 0) fail(Code::exhausted, "memfd_create", errno);
  if (::ftruncate(segment.fd.get(), static_cast<off_t>(bytes)) != 0)
    fail(Code::exhausted, "ftruncate", errno);
  segment.mapping = std::make_shared<os::Mapping>(os::Mapping::shared(segment.fd, bytes));
  segment.huge_pages_advised = populate(*segment.mapping, segment.fd, pages);
#if defined(F_SEAL_FUTURE_WRITE)
  if (others == Access::read) (void)::fcntl(segment.fd.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
#else
  (void)others;
#endif
  if (::fcntl(segment.fd.get(), F_ADD_SEALS, kSeals) != 0) fail(Code::system, "sealing", errno);
  return segment;
}

Segment create_private_segment(std::size_t bytes, const PageKind& pages) {
  Segment segment;
  segment.mapping = std::make_shared<os::Mapping>(os::Mapping::anonymous(bytes));
  segment.huge_pages_advised = populate(*segment.mapping, segment.fd, pages);
  return segment;
}

Segment create_lazy_segment(std::size_t bytes) {
  Segment segment;
  segment.mapping = std::make_shared<os::Mapping>(os::Mapping::anonymous(bytes));
  return segment;
}

SegmentMapper::FileId SegmentMapper::identify(const os::Fd& fd) {
  struct stat about {};
  if (::fstat(fd.get(), &about) != 0) fail(Code::system, "fstat", errno);
  return {about.st_dev, about.st_ino};
}

void SegmentMapper::add(const os::Fd& fd, std::shared_ptr<os::Mapping> mapping) {
  const FileId identity = identify(fd);
  const std::lock_guard lock(mutex_);
  std::erase_if(mappings_, [](const auto& entry) { return entry.second.expired(); });
  mappings_[identity] = mapping;
}

std::shared_ptr<os::Mapping> SegmentMapper::map(const os::Fd& fd, std::size_t bytes,
                                                Access access) {
  const FileId identity = identify(fd);
  const std::lock_guard lock(mutex_);
  // Read-only mappings are not given again: a peer that names the same memory as writable would
  // otherwise make this process write through one.
  if (const auto known = mappings_.find(identity); known != mappings_.end())
    if (auto mapping = known->second.lock(); mapping && mapping->bytes() >= bytes) return mapping;
  struct stat about {};
  if (::fstat(fd.get(), &about) != 0) fail(Code::system, "fstat", errno);
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (static_cast<std::size_t>(about.st_size) < bytes || seals < 0 || (seals & kSeals) != kSeals)
    throw Error(ErrorDetail{.code = Code::system,
                            .operation = "map",
                            .message = fmt::format("a peer's memory has {} bytes instead of {}, or "
                                                   "is not sealed",
                                                   about.st_size, bytes)});
  auto mapping = std::make_shared<os::Mapping>(
      access == Access::read ? os::Mapping::readable(fd, bytes) : os::Mapping::shared(fd, bytes));
  if (access == Access::write) {
    mappings_[identity] = mapping;
  } else {
    std::erase_if(readable_, [](const auto& known) { return known.expired(); });
    readable_.push_back(mapping);
  }
  return mapping;
}

std::shared_ptr<const os::Mapping> SegmentMapper::find(const std::byte* data, std::size_t bytes) {
  const auto holds = [&](const os::Mapping& mapping) {
    return data >= mapping.data() &&
           static_cast<std::size_t>(data - mapping.data()) <= mapping.bytes() &&
           bytes <= mapping.bytes() - static_cast<std::size_t>(data - mapping.data());
  };
  const std::lock_guard lock(mutex_);
  for (const auto& [file, known] : mappings_)
    if (auto mapping = known.lock(); mapping && holds(*mapping)) return mapping;
  for (const auto& known : readable_)
    if (auto mapping = known.lock(); mapping && holds(*mapping)) return mapping;
  return nullptr;
}

}  // namespace weft::p2p
