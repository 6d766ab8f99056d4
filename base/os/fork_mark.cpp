#include "base/os/fork_mark.hpp"

#include <sys/mman.h>

#include <new>

#include "base/os/system_error.hpp"

namespace weft::os {

ForkMark::ForkMark() : page_(Mapping::anonymous(4096)) {
  if (::madvise(page_.data(), page_.bytes(), MADV_WIPEONFORK) != 0)
    throw_system_error("madvise", "MADV_WIPEONFORK");
  new (page_.data()) std::atomic<std::uint32_t>(1);
}

}  // namespace weft::os
