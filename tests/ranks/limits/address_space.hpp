// The address space that this process uses.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

namespace weft::tests {

inline rlim_t address_space_in_use() {
  unsigned long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%lu", &pages) != 1) return 0;
  std::fclose(file);
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace weft::tests
