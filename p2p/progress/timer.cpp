#include "p2p/progress/timer.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include "base/os/system_error.hpp"

namespace weft::p2p {
namespace {

os::Fd make_timer() {
  os::Fd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) os::throw_system_error("join", "timerfd_create");
  return timer;
}

}  // namespace

Timer::Timer(ProgressThread& progress, std::chrono::nanoseconds period, OnTime on_time)
    : period_(period),
      fd_(progress, make_timer(), EPOLLIN, [this, on_time = std::move(on_time)](std::uint32_t) {
        std::uint64_t expired = 0;
        if (::read(fd_.get(), &expired, sizeof expired) == sizeof expired && started_)
          on_time(expired);
      }) {}

void Timer::start() noexcept {
  if (started_) return;
  started_ = true;
  set(period_);
}

void Timer::stop() noexcept {
  if (!started_) return;
  started_ = false;
  set(std::chrono::nanoseconds(0));
}

void Timer::change(std::chrono::nanoseconds period) noexcept {
  if (started_) set(period);
}

void Timer::set(std::chrono::nanoseconds period) noexcept {
  constexpr std::int64_t kSecond = 1'000'000'000;
  timespec span{};
  span.tv_sec = period.count() / kSecond;
  span.tv_nsec = period.count() % kSecond;
  const itimerspec times{.it_interval = span, .it_value = span};
  ::timerfd_settime(fd_.get(), 0, &times, nullptr);
}

}  // namespace weft::p2p
