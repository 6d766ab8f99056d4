#include "benchmarks/harness/flags.hpp"

#include <cstdio>
#include <cstdlib>

namespace weft::bench {
namespace {

std::chrono::nanoseconds patience = std::chrono::seconds{60};

}  // namespace

void set_patience(std::chrono::nanoseconds limit) noexcept { patience = limit; }

std::chrono::steady_clock::time_point end_of_patience() noexcept {
  return std::chrono::steady_clock::now() + patience;
}

void end_without_partner() noexcept {
  const double seconds = std::chrono::duration<double>(patience).count();
  std::fprintf(stderr,
               "weft-bench: another rank of this benchmark has not gone on for %g s: this rank "
               "ends\n",
               seconds);
  // The partner may have ended in the middle of anything, so that destructors could wait for it.
  std::_Exit(1);
}

}  // namespace weft::bench
