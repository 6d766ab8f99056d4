#include "base/os/descriptor_limit.hpp"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <limits>

namespace weft::os {
namespace {

using Time = std::chrono::steady_clock::time_point;

std::atomic<Time::rep> last_shortage{std::numeric_limits<Time::rep>::min()};

}  // namespace

void raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::size_t descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<std::size_t>::max();
  return static_cast<std::size_t>(limit.rlim_cur);
}

std::size_t free_descriptors(std::size_t enough) noexcept {
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  const std::size_t limit = std::min(descriptor_limit(), kMost);
  std::size_t count = 0;
  for (std::size_t fd = 0; fd < limit && count < enough; ++fd)
    if (::fcntl(static_cast<int>(fd), F_GETFD) < 0) ++count;
  return count;
}

void note_descriptor_shortage() noexcept {
  last_shortage.store(std::chrono::steady_clock::now().time_since_epoch().count());
}

bool lacked_descriptors(Time since) noexcept {
  return last_shortage.load() >= since.time_since_epoch().count();
}

}  // namespace weft::os
