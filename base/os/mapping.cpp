#include "base/os/mapping.hpp"

#include <sys/mman.h>

#include <string>

#include "base/os/system_error.hpp"

namespace weft::os {
namespace {

Mapping map(int file, std::size_t bytes, int protection, int flags) {
  void* const data = ::mmap(nullptr, bytes, protection, flags, file, 0);
  if (data == MAP_FAILED) throw_system_error("mmap", std::to_string(bytes) + " bytes");
  return {data, bytes};
}

}  // namespace

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Mapping Mapping::shared(const Fd& file, std::size_t bytes) {
  return map(file.get(), bytes, PROT_READ | PROT_WRITE, MAP_SHARED);
}

Mapping Mapping::readable(const Fd& file, std::size_t bytes) {
  return map(file.get(), bytes, PROT_READ, MAP_SHARED);
}

Mapping Mapping::anonymous(std::size_t bytes) {
  return map(-1, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
}

}  // namespace weft::os
