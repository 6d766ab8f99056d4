#include "p2p/transport/tcp/sockets.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>

#include "base/os/system_error.hpp"

namespace weft::p2p::tcp {
namespace {

/// How soon the progress thread checks whether a thread still polls; later the longer that has been
/// so, since each look takes a processor from those that poll.
constexpr std::chrono::microseconds kTick{500};
constexpr std::chrono::microseconds kLongestTick{2000};
/// How often all are asked while one is asked each time.
constexpr unsigned kOfLooks = 4;

os::Fd make_epoll() {
  os::Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) os::throw_system_error("join", "epoll_create1");
  return epoll;
}

}  // namespace

Sockets::Sockets(ProgressThread& progress)
    : progress_(progress), epoll_(make_epoll()), tick_(progress, kTick, [this](std::uint64_t) {
        {
          const std::lock_guard lock(armed_mutex_);
          if (polled_.exchange(false)) {
            if (period_ == kLongestTick) return;
            period_ = std::min<std::chrono::nanoseconds>(2 * period_, kLongestTick);
            return tick_.change(period_);
          }
          tick_.stop();
        }
        arm();
      }) {
  armed_.store(true);
  progress_.watch(epoll_.get(), EPOLLIN, [this](std::uint32_t) { woken(); });
}

void Sockets::add(int in, int out, Ready& who) {
  epoll_event event{};
  event.data.ptr = &who;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, in, &event) != 0 ||
      (out != in && ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, out, &event) != 0))
    os::throw_system_error("connect", "epoll_ctl");
  const std::scoped_lock lock(mutex_, armed_mutex_);
  watches_.push_back({in, out, &who});
  if (watches_.size() == kFew + 1)
    tell_kernel_of_all();
  else
    tell_kernel(watches_.back());
}

void Sockets::remove(int in, int out) noexcept {
  const std::scoped_lock lock(mutex_, armed_mutex_);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, in, nullptr);
  if (out != in) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, out, nullptr);
  std::erase_if(watches_, [in](const Watch& watch) { return watch.in == in; });
  if (are_few()) tell_kernel_of_all();
  last_ = 0;
}

void Sockets::want_room(int in, bool wanted) noexcept {
  const std::lock_guard lock(armed_mutex_);
  const auto found = std::find_if(watches_.begin(), watches_.end(),
                                  [in](const Watch& watch) { return watch.in == in; });
  if (found == watches_.end()) return;
  found->wants_room = wanted;
  if (armed_.load() || !are_few()) tell_kernel(*found);
}

void Sockets::tell_kernel(const Watch& watch) noexcept {
  const bool noticed = armed_.load() || !are_few();
  epoll_event out{};
  out.data.ptr = watch.who;
  if (noticed && watch.wants_room) out.events = EPOLLOUT;
  epoll_event in{};
  in.data.ptr = watch.who;
  if (noticed) in.events = EPOLLIN;
  if (watch.in == watch.out)
    in.events |= out.events;
  else
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, watch.out, &out);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, watch.in, &in);
}

void Sockets::tell_kernel_of_all() noexcept {
  for (const Watch& watch : watches_) tell_kernel(watch);
}

bool Sockets::poll_all() noexcept {
  bool moved = false;
  if (!are_few()) {
    if (last_ < watches_.size()) moved = watches_[last_].who->receive();
    if (++looks_ % kOfLooks == 0) moved = ask_kernel() || moved;
    return moved;
  }
  for (std::size_t i = 0; i < watches_.size(); ++i) {
    Ready& who = *watches_[i].who;
    if (who.waits_for_room()) moved = who.flush() || moved;
    moved = who.receive() || moved;
  }
  return moved;
}

bool Sockets::ask_kernel() noexcept {
  if (are_few()) return poll_all();
  bool moved = false;
  std::array<epoll_event, 32> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    Ready& who = *static_cast<Ready*>(event.data.ptr);
    if ((event.events & EPOLLOUT) != 0) moved = who.flush() || moved;
    if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) continue;
    moved = who.receive() || moved;
    const auto found = std::find_if(watches_.begin(), watches_.end(),
                                    [&](const Watch& watch) { return watch.who == &who; });
    last_ = static_cast<std::size_t>(found - watches_.begin());
  }
  return moved;
}

bool Sockets::poll() noexcept {
  // First: if the progress thread is at it, it is to leave it to this one.
  if (!polled_.load(std::memory_order_relaxed)) polled_.store(true, std::memory_order_relaxed);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return true;
  const bool moved = poll_all();
  if (moved && armed_.load(std::memory_order_relaxed)) [[unlikely]] {
    // The progress thread would be woken for what this thread receives, and take its processor.
    const std::lock_guard armed_lock(armed_mutex_);
    disarm();
    look_again_later();
  }
  return moved;
}

void Sockets::poll_once() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) poll_all();
}

void Sockets::drain() noexcept {
  const std::lock_guard lock(mutex_);
  ask_kernel();
}

void Sockets::arm() noexcept {
  polled_.store(false);  // who polled so far goes to sleep
  if (armed_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(armed_mutex_);
  if (armed_.exchange(true)) return;
  // Bytes that came before show at once.
  if (are_few()) tell_kernel_of_all();
  progress_.change(epoll_.get(), EPOLLIN);
}

void Sockets::disarm() noexcept {
  if (!armed_.exchange(false)) return;
  progress_.change(epoll_.get(), 0);
  if (are_few()) tell_kernel_of_all();
}

void Sockets::look_again_later() noexcept {
  period_ = kTick;
  tick_.start();
}

void Sockets::woken() noexcept {
  {
    const std::lock_guard lock(armed_mutex_);
    disarm();
  }
  // A thread that has begun to poll receives by itself, and needs the processor for that.
  if (!polled_.load()) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    // A thread polls right now, perhaps for long; or has taken what came; or holds the lock of what
    // is to be sent. If it was preempted meanwhile, this thread must leave the processor to it.
    if (!lock.owns_lock() || !ask_kernel()) polled_.store(true);
  }
  if (!polled_.load()) return arm();
  const std::lock_guard lock(armed_mutex_);
  look_again_later();
}

}  // namespace weft::p2p::tcp
