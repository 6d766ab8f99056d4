#include "pslib/checkpoint/durable_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <utility>

#include "base/os/system_error.hpp"
#include "weft/error.hpp"

namespace weft::pslib {
namespace {

[[noreturn]] void fail(std::string_view operation, const std::filesystem::path& path) {
  os::throw_system_error(operation, path.native(), errno);
}

void step(const Failpoint& failpoint, std::string_view name) {
  if (failpoint) failpoint(name);
}

}  // namespace

DurableFile::DurableFile(std::filesystem::path path, std::size_t writer, const Failpoint& failpoint)
    : path_(std::move(path)), temporary_(path_), failpoint_(failpoint) {
  temporary_ += fmt::format(".{}.tmp", writer);
  step(failpoint_, "create");
  file_ = os::Fd(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file_) fail("checkpoint", temporary_);
}

void DurableFile::append(std::span<const std::byte> bytes) {
  step(failpoint_, "write");
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("checkpoint", temporary_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void DurableFile::replace_start(std::span<const std::byte> bytes) {
  step(failpoint_, "seek");
  if (::lseek(file_.get(), 0, SEEK_SET) != 0) fail("checkpoint", temporary_);
  append(bytes);
}

void DurableFile::commit() {
  step(failpoint_, "sync");
  if (::fsync(file_.get()) != 0) fail("checkpoint", temporary_);
  file_ = os::Fd();
  step(failpoint_, "rename");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("checkpoint", path_);
  step(failpoint_, "sync folder");
  sync_folder(path_.parent_path());
}

void sync_folder(const std::filesystem::path& folder) {
  const os::Fd file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file || ::fsync(file.get()) != 0) fail("checkpoint", folder);
}

std::string digest(std::span<const std::byte> bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

void refuse_file(const std::filesystem::path& path, std::uint64_t offset, const std::string& why) {
  ErrorDetail detail;
  detail.code = Code::mismatch;
  detail.operation = "restore";
  detail.message = fmt::format("{}, byte {}: {}", path.native(), offset, why);
  detail.hint = "restore an older checkpoint, or this file from where it was copied to";
  throw Error(std::move(detail));
}

void read_exactly(const os::Fd& file, const std::filesystem::path& path, std::uint64_t offset,
                  std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = ::pread(file.get(), to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("restore", path);
    if (got == 0) refuse_file(path, offset, "the file ends here, before it should");
    offset += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

os::Fd open_to_read(const std::filesystem::path& path) {
  os::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) fail("restore", path);
  return file;
}

std::uint64_t file_bytes(const os::Fd& file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("restore", path);
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace weft::pslib
