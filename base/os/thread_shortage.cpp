#include "base/os/thread_shortage.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <cstddef>
#include <string>

#include "weft/error.hpp"

namespace weft::os {
namespace {

std::size_t stack_bytes() noexcept {
  pthread_attr_t attributes;
  std::size_t bytes = 0;
  if (::pthread_attr_init(&attributes) != 0) return 0;
  ::pthread_attr_getstacksize(&attributes, &bytes);
  ::pthread_attr_destroy(&attributes);
  return bytes;
}

bool has_address_space_for(std::size_t bytes) noexcept {
  if (bytes == 0) return true;
  void* const probe = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (probe == MAP_FAILED) return false;
  ::munmap(probe, bytes);
  return true;
}

}  // namespace

void throw_thread_shortage(std::string_view operation, const std::system_error& error) {
  ErrorDetail detail{.code = Code::exhausted, .operation = std::string(operation)};
  if (const std::size_t stack = stack_bytes(); !has_address_space_for(stack)) {
    detail.message =
        "starting a thread: no address space for its stack of " + std::to_string(stack) + " bytes";
    detail.hint =
        "raise the limit of address space (ulimit -v), or lower that of stacks (ulimit -s)";
  } else {
    detail.message = std::string("starting a thread: ") + error.what();
    detail.hint = "raise the limit of processes (ulimit -u, pids.max)";
  }
  throw Error(std::move(detail));
}

}  // namespace weft::os
