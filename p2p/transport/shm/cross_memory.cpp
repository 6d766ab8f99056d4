#include "p2p/transport/shm/cross_memory.hpp"
#include "base/fail.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace weft::p2p {
namespace {

/// A call moves at most some 2 GiB; larger ones are done in steps.
constexpr std::size_t kStep = 1U << 30U;
constexpr std::size_t kRuns = 64;

Status refused(const char* call, pid_t process) noexcept {
  const int error = errno;
  Code code = Code::system;
  if (error == ESRCH) code = Code::peer_failed;
  if (error == EPERM || error == ENOSYS) code = Code::unreachable;
  if (error == EFAULT) code = Code::closed;
  return refuse(code, [&] {
    return ErrorDetail{
        .code = code,
        .operation = call,
        .message = fmt::format("memory of process {}: {}", process, std::strerror(error))};
  });
}

void* at(std::uint64_t address) noexcept {
  return reinterpret_cast<void*>(address);  // NOLINT: another process's address
}

}  // namespace

Status CrossMemory::require_alive(const char* call) const noexcept {
  if (pidfd_ < 0) return {};
  pollfd at{.fd = pidfd_, .events = POLLIN, .revents = 0};
  if (::poll(&at, 1, 0) == 0) return {};
  return refuse(Code::peer_failed, [&] {
    return ErrorDetail{
        .code = Code::peer_failed,
        .operation = call,
        .message = fmt::format("process {} has ended: its number may be another's", process_)};
  });
}

Status CrossMemory::read(std::byte* to, std::uint64_t from, std::size_t bytes) const noexcept {
  while (bytes > 0) {
    const std::size_t step = std::min(bytes, kStep);
    iovec here{to, step};
    iovec there{at(from), step};
    const ssize_t moved = ::process_vm_readv(process_, &here, 1, &there, 1, 0);
    if (moved <= 0) return refused("process_vm_readv", process_);
    to += moved;
    from += static_cast<std::uint64_t>(moved);
    bytes -= static_cast<std::size_t>(moved);
  }
  return require_alive("process_vm_readv");
}

Status CrossMemory::write(std::uint64_t to, const std::byte* from,
                          std::size_t bytes) const noexcept {
  while (bytes > 0) {
    const std::size_t step = std::min(bytes, kStep);
    iovec here{const_cast<std::byte*>(from), step};
    iovec there{at(to), step};
    if (Status alive = require_alive("process_vm_writev"); !alive.ok()) return alive;
    const ssize_t moved = ::process_vm_writev(process_, &here, 1, &there, 1, 0);
    if (moved <= 0) return refused("process_vm_writev", process_);
    from += moved;
    to += static_cast<std::uint64_t>(moved);
    bytes -= static_cast<std::size_t>(moved);
  }
  return require_alive("process_vm_writev");
}

Status CrossMemory::write(std::uint64_t to, std::span<const Tensor> parts) const noexcept {
  std::array<iovec, kRuns> here{};
  std::size_t runs = 0;
  std::size_t bytes = 0;
  Status status;
  const auto flush = [&] {
    iovec there{at(to), bytes};
    status = require_alive("process_vm_writev");
    if (!status.ok()) return;
    const ssize_t moved = ::process_vm_writev(process_, here.data(), runs, &there, 1, 0);
    if (moved < 0)
      status = refused("process_vm_writev", process_);
    else if (static_cast<std::size_t>(moved) < bytes)  // rare: the runs once more, one by one
      for (std::size_t i = 0, done = 0; i < runs && status.ok(); done += here[i++].iov_len)
        status = write(to + done, static_cast<const std::byte*>(here[i].iov_base), here[i].iov_len);
    to += bytes;
    runs = bytes = 0;
  };
  for (const Tensor& part : parts)
    for_each_run(part, [&](std::byte* data, std::size_t size) {
      if (!status.ok() || size == 0) return;
      here[runs++] = {data, size};
      bytes += size;
      if (runs == kRuns || bytes >= kStep) flush();
    });
  if (status.ok() && runs > 0) flush();
  return status.ok() ? require_alive("process_vm_writev") : status;
}

}  // namespace weft::p2p
