#include "pslib/checkpoint/durable_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <utility>

#include "base/fail.hpp"
#include "base/os/system_error.hpp"
#include "weft/error.hpp"

namespace weft::pslib {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path) {
  os::throw_system_error("restore", path.native(), errno);
}

// Lets a test stop before the file exists.
const os::Folder& announced(const os::Folder& folder, const Failpoint& failpoint) {
  if (failpoint) failpoint("create");
  return folder;
}

}  // namespace

DurableFile::DurableFile(const os::Folder& folder, const std::string& name,
                         const Failpoint& failpoint)
    : failpoint_(failpoint), draft_(announced(folder, failpoint), name) {}

void DurableFile::append(std::span<const std::byte> bytes) {
  step("write");
  draft_.write(bytes);
}

void DurableFile::replace_start(std::span<const std::byte> bytes) {
  step("seek");
  draft_.write_start(bytes);
}

void DurableFile::commit() {
  step("sync");
  draft_.sync();
  step("rename");
  draft_.publish();
  step("sync folder");
  draft_.folder().sync();
}

std::string digest(std::span<const std::byte> bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

void refuse_file(const std::filesystem::path& path, std::uint64_t offset, const std::string& why) {
  throw_error(Code::mismatch, "restore", fmt::format("{}, byte {}: {}", path.native(), offset, why),
              "restore an older checkpoint, or this file from where it was copied to");
}

void read_exactly(const os::Fd& file, const std::filesystem::path& path, std::uint64_t offset,
                  std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = ::pread(file.get(), to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path);
    if (got == 0) refuse_file(path, offset, "the file ends here, before it should");
    offset += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

std::uint64_t file_bytes(const os::Fd& file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail(path);
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace weft::pslib
