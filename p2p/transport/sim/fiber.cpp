#include "p2p/transport/sim/fiber.hpp"

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

#if defined(__SANITIZE_ADDRESS__)
/// Before a switch to another stack: keeps what belongs to this one, unless it is left for good.
void leave_stack(void** keep, const void* to, std::size_t bytes) noexcept {
  __sanitizer_start_switch_fiber(keep, to, bytes);
}
/// After it, on the other stack: tells which one was left.
void enter_stack(void* kept, const void** from, std::size_t* bytes) noexcept {
  __sanitizer_finish_switch_fiber(kept, from, bytes);
}
/// Keeps an abandoned stack, since what it refers to is not lost by mistake: it is known to the
/// leak checker.
void keep_stack(os::Mapping& stack) noexcept {
  __lsan_register_root_region(stack.data() + kGuardBytes, stack.bytes() - kGuardBytes);
  os::Mapping* kept = new os::Mapping;  // NOLINT(cppcoreguidelines-owning-memory): never freed
  kept->swap(stack);
  __lsan_ignore_object(kept);
}
#else
void leave_stack(void**, const void*, std::size_t) noexcept {}
void enter_stack(void*, const void**, std::size_t*) noexcept {}
void keep_stack(os::Mapping&) noexcept {}
#endif

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
  if (!ended_) keep_stack(stack_);
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
  void* kept = nullptr;
  leave_stack(&kept, stack_.data(), stack_.bytes());
  leave_for(outside_, own_);
  enter_stack(kept, nullptr, nullptr);
}

void Fiber::park() {
  leave_stack(ended_ ? nullptr : &shadow_, outside_stack_, outside_bytes_);
  leave_for(own_, outside_);
  enter_stack(shadow_, &outside_stack_, &outside_bytes_);
}

void Fiber::enter(unsigned low, unsigned high) {
  auto* self = reinterpret_cast<Fiber*>(std::uintptr_t{low} | (std::uintptr_t{high} << 32U));
  enter_stack(nullptr, &self->outside_stack_, &self->outside_bytes_);
  self->body_();
  self->ended_ = true;
  self->park();
}

}  // namespace weft::p2p::sim
