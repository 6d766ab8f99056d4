#include "benchmarks/limits/kernel_copy.hpp"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace weft::bench {
namespace {

void tell_place(const SharedMemory& bare, const Tensor& memory) {
  FlagLine& line = bare.flags().place;
  line.payload[0] = static_cast<std::uint64_t>(::getpid());
  line.payload[1] = reinterpret_cast<std::uint64_t>(memory.data());
  raise_to(line, 1);
}

using KernelCopy = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                               unsigned long);

// A call may move fewer bytes than requested.
void copy_by(KernelCopy call, const char* name, const SharedMemory& bare, const Tensor& mine) {
  const FlagLine& place = bare.their_flags().place;
  await(place, 1, bare.idle());
  const auto process = static_cast<pid_t>(place.payload[0]);
  for (std::size_t done = 0; done < mine.bytes();) {
    const iovec here{mine.data() + done, mine.bytes() - done};
    const iovec there{reinterpret_cast<void*>(place.payload[1] + done), mine.bytes() - done};
    const ssize_t moved = call(process, &here, 1, &there, 1, 0);
    if (moved <= 0)
      throw std::runtime_error(fmt::format("the limit's {} of process {}: {}", name, process,
                                           moved < 0 ? std::strerror(errno) : "nothing moved"));
    done += static_cast<std::size_t>(moved);
  }
}

}  // namespace

void KernelCopyOut::move(std::size_t, std::uint64_t stamp) {
  copy_by(::process_vm_writev, "process_vm_writev", bare_, source_);
  raise_to(bare_.flags().announced, stamp);
}

KernelCopySeen::KernelCopySeen(const SharedMemory& bare, Tensor into)
    : bare_(bare), into_(std::move(into)) {
  tell_place(bare_, into_);
}

const std::byte* KernelCopySeen::take(std::size_t, std::uint64_t stamp) {
  await(bare_.their_flags().announced, stamp, bare_.idle());
  return into_.data();
}

KernelCopyTold::KernelCopyTold(const SharedMemory& bare, Tensor source)
    : bare_(bare), source_(std::move(source)) {
  tell_place(bare_, source_);
}

void KernelCopyTold::move(std::size_t, std::uint64_t stamp) {
  raise_to(bare_.flags().announced, stamp);
}

const std::byte* KernelCopyIn::take(std::size_t, std::uint64_t stamp) {
  await(bare_.their_flags().announced, stamp, bare_.idle());
  copy_by(::process_vm_readv, "process_vm_readv", bare_, into_);
  return into_.data();
}

}  // namespace weft::bench
