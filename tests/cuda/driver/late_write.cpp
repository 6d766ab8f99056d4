#include "tests/cuda/driver/late_write.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <ctime>
#include <utility>

namespace weft::stand_in {
namespace {

constexpr int kTimes = 100;
constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 30'000'000};

/// In the other process, where nothing but plain system calls is allowed.
[[noreturn]] void wait_and_write(int line, std::byte* to, const std::byte* from,
                                 std::size_t bytes) {
  // Peers see the end of a process by its sockets, and the launcher by its output.
  if (::dup2(line, 0) < 0 || ::close_range(1, UINT_MAX, 0) != 0) ::_exit(1);
  char forgotten = 0;
  if (::read(0, &forgotten, 1) == 1) ::_exit(0);
  for (int i = 0; i < kTimes; ++i) {
    (void)::nanosleep(&kPause, nullptr);
    std::memcpy(to, from, bytes);
  }
  ::_exit(0);
}

}  // namespace

LateWrite::LateWrite(std::byte* to, const std::byte* from, std::size_t bytes) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  // Without the handlers of a fork: they are for processes that go on as this one does.
  process_ = ::_Fork();
  if (process_ == 0) {
    (void)::close(ends[1]);
    wait_and_write(ends[0], to, from, bytes);
  }
  (void)::close(ends[0]);
  line_ = ends[1];
}

void LateWrite::forget() noexcept {
  if (const int line = std::exchange(line_, -1); line >= 0) {
    const char forgotten = 1;
    [[maybe_unused]] const auto written = ::write(line, &forgotten, 1);
    (void)::close(line);
  }
  if (const pid_t process = std::exchange(process_, -1); process > 0)
    (void)::waitpid(process, nullptr, 0);
}

}  // namespace weft::stand_in
