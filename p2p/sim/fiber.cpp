#include "p2p/sim/fiber.hpp"

#include <cxxabi.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "base/os/system_error.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif

namespace weft::p2p::sim {
namespace {

constexpr std::size_t kStackBytes = 256u << 10;
constexpr std::size_t kGuardBytes = 4096;

}  // namespace

Fiber::Fiber(std::function<void()> body)
    : body_(std::move(body)), stack_(os::Mapping::anonymous(kStackBytes)) {
  if (::mprotect(stack_.data(), kGuardBytes, PROT_NONE) != 0)
    os::throw_system_error("mprotect", "a fiber's guard page");
  ::getcontext(&own_);
  own_.uc_stack.ss_sp = stack_.data();
  own_.uc_stack.ss_size = stack_.bytes();
  own_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  // makecontext passes ints.
  ::makecontext(&own_, reinterpret_cast<void (*)()>(&Fiber::enter), 2,
                static_cast<unsigned>(self & 0xffffffffU), static_cast<unsigned>(self >> 32U));
}

Fiber::~Fiber() {
#if defined(__SANITIZE_ADDRESS__)
  if (ended_) return;
  // What the abandoned stack refers to is not lost by mistake: it stays, and is told to the leak
  // checker.
  __lsan_register_root_region(stack_.data() + kGuardBytes, kStackBytes - kGuardBytes);
  os::Mapping kept;
  kept.swap(stack_);
  new os::Mapping(std::move(kept));  // NOLINT: never unmapped
#endif
}

void Fiber::leave_for(ucontext_t& from, ucontext_t& to) {
  Handling own;
  static_assert(sizeof own == 16);
  std::memcpy(static_cast<void*>(&own), abi::__cxa_get_globals(), sizeof own);
  std::memcpy(static_cast<void*>(abi::__cxa_get_globals()), &other_handling_, sizeof own);
  other_handling_ = own;
  ::swapcontext(&from, &to);
}

void Fiber::resume() {
#if defined(__SANITIZE_ADDRESS__)
  void* shadow = nullptr;
  __sanitizer_start_switch_fiber(&shadow, stack_.data(), stack_.bytes());
#endif
  leave_for(outside_, own_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(shadow, nullptr, nullptr);
#endif
}

void Fiber::park() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(ended_ ? nullptr : &shadow_, outside_stack_, outside_bytes_);
#endif
  leave_for(own_, outside_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(shadow_, &outside_stack_, &outside_bytes_);
#endif
}

void Fiber::enter(unsigned low, unsigned high) {
  auto* self = reinterpret_cast<Fiber*>(std::uintptr_t{low} | (std::uintptr_t{high} << 32U));
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self->outside_stack_, &self->outside_bytes_);
#endif
  self->body_();
  self->ended_ = true;
  self->park();
}

}  // namespace weft::p2p::sim
