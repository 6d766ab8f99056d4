#include "base/os/fd.hpp"

#include <unistd.h>

namespace weft::os {

// close() is not repeated on EINTR: Linux has already released the descriptor.
Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace weft::os
