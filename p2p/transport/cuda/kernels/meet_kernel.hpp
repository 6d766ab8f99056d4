// The body of the kernel by which a rank's stream tells those of other ranks how far it is:
// compiled by nvcc for GPUs, and by the host's compiler for the tests' driver.
#pragma once

#include "p2p/transport/cuda/kernels/reduce_kernel.hpp"

namespace weft::p2p::cuda::kernels {

/// Ranks whose streams meet at most.
constexpr unsigned kMostPartners = 64;

/// A launch: resets this rank's words of one step, and sets its words of the next at the others.
/// All lie in host memory that the GPU reaches.
struct MeetParameters {
  const std::uint32_t* ended;              ///< unless it is 0, the launch does nothing
  std::uint32_t* own;                      ///< by member, reset to 0
  std::uint32_t* partners[kMostPartners];  ///< by member, set to 1; null: this rank itself
  std::uint32_t count;                     ///< members
};

/// The store is seen behind all that this thread, and work before it on the stream, has written.
WEFT_ON_BOTH void store_word(std::uint32_t* word, std::uint32_t value) {
#if defined(__CUDA_ARCH__)
  __threadfence_system();
  asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
#else
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
#endif
}

/// The share of one thread: one member's words. The own word is reset first, since the member may
/// set it again as soon as it sees its own.
WEFT_ON_BOTH void meet(const MeetParameters& launch, std::uint32_t member) {
  if (member >= launch.count || launch.partners[member] == nullptr) return;
  if (load_word(launch.ended) != 0) return;
  store_word(launch.own + member, 0);
  store_word(launch.partners[member], 1);
}

constexpr const char* kMeetKernel = "weft_meet";

}  // namespace weft::p2p::cuda::kernels
