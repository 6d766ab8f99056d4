#include "base/os/mapping.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/os/system_error.hpp"
#include "weft/error.hpp"

namespace weft::os {
namespace {

Mapping map(int file, std::size_t bytes, int protection, int flags) {
  void* const data = ::mmap(nullptr, bytes, protection, flags, file, 0);
  if (data == MAP_FAILED && errno == ENOMEM)
    throw Error(ErrorDetail{
        .code = Code::exhausted,
        .operation = "mmap",
        .message = std::to_string(bytes) + " bytes: " + words(errno),
        .hint = "the limit of address space (ulimit -v), or of mappings (vm.max_map_count)"});
  if (data == MAP_FAILED) throw_system_error("mmap", std::to_string(bytes) + " bytes");
  return {data, bytes};
}

}  // namespace

Mapping::~Mapping() {
  // In a fork the address may belong to something else.
  if (data_ != nullptr && (only_in_ == 0 || only_in_ == ::getpid())) ::munmap(data_, bytes_);
}

Mapping Mapping::of_file(const Fd& file, std::size_t bytes, int protection) {
  Mapping mapping = map(file.get(), bytes, protection, MAP_SHARED);
  if (::madvise(mapping.data(), bytes, MADV_DONTFORK) != 0)
    throw_system_error("madvise", "MADV_DONTFORK");
  mapping.only_in_ = ::getpid();
  mapping.is_writable_ = (protection & PROT_WRITE) != 0;
  return mapping;
}

Mapping Mapping::shared(const Fd& file, std::size_t bytes) {
  return of_file(file, bytes, PROT_READ | PROT_WRITE);
}

Mapping Mapping::readable(const Fd& file, std::size_t bytes) {
  return of_file(file, bytes, PROT_READ);
}

Mapping Mapping::anonymous(std::size_t bytes) {
  return map(-1, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
}

}  // namespace weft::os
