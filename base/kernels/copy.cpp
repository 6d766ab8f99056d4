#include "base/kernels/copy.hpp"

#include <cstdint>
#include <cstring>

// Highway compiles the code between HWY_BEFORE and HWY_AFTER once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/kernels/copy.cpp"
#include <hwy/foreach_target.h>  // before highway.h

#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kCacheLine = 64;

const char* target() { return hwy::TargetName(HWY_TARGET); }

void copy_streamed(std::uint8_t* HWY_RESTRICT to, const std::uint8_t* HWY_RESTRICT from,
                   std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> vector;
  const std::size_t lanes = hn::Lanes(vector);
  // Streaming starts at the first whole cache line: a partly written line would cost a read.
  const std::size_t head = -reinterpret_cast<std::uintptr_t>(to) % kCacheLine;
  if (bytes < head + 4 * lanes) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + 4 * lanes <= bytes; at += 4 * lanes) {
    const auto a = hn::LoadU(vector, from + at);
    const auto b = hn::LoadU(vector, from + at + lanes);
    const auto c = hn::LoadU(vector, from + at + 2 * lanes);
    const auto d = hn::LoadU(vector, from + at + 3 * lanes);
    hn::Stream(a, vector, to + at);
    hn::Stream(b, vector, to + at + lanes);
    hn::Stream(c, vector, to + at + 2 * lanes);
    hn::Stream(d, vector, to + at + 3 * lanes);
  }
  std::memcpy(to + at, from + at, bytes - at);
  // A release store does not order streamed stores.
  hwy::FlushStream();
}

}  // namespace weft::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {

HWY_EXPORT(copy_streamed);
HWY_EXPORT(target);

void copy_cached(void* to, const void* from, std::size_t bytes) noexcept {
  std::memcpy(to, from, bytes);
}

void copy_streamed(void* to, const void* from, std::size_t bytes) noexcept {
#if defined(__SANITIZE_THREAD__)
  std::memcpy(to, from,
              bytes);  // ThreadSanitizer does not see streamed stores and would miss races
#else
  HWY_DYNAMIC_DISPATCH(copy_streamed)
  (static_cast<std::uint8_t*>(to), static_cast<const std::uint8_t*>(from), bytes);
#endif
}

const char* vector_target() noexcept { return HWY_DYNAMIC_DISPATCH(target)(); }

}  // namespace weft::kernels
#endif
