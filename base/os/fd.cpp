#include "base/os/fd.hpp"

#include <unistd.h>

namespace weft::os {

// Not repeated on EINTR: Linux has let go of the descriptor by then.
Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace weft::os
