#include "base/os/standard_output.hpp"

#include <cerrno>
#include <cstdio>

#include "base/os/system_error.hpp"

namespace weft::os {

void flush_output() {
  errno = 0;
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (failed) throw_system_error("write", "standard output", errno != 0 ? errno : EIO);
}

}  // namespace weft::os
