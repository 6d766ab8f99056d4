// weft's own declarations of the CUDA driver beside the toolkit's: constants, structs and
// functions. All is decided by the compiler.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "p2p/transport/cuda/api/driver.hpp"

#if CUDA_VERSION >= 13000
// The driver has it still, and the header gives it to the toolkit's own sources alone.
extern "C" CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus*, cuuint64_t*,
                                                      CUgraph*, const CUgraphNode**, size_t*);
#endif

namespace weft::p2p::cuda {
namespace {

#define SAME_CONSTANT(name, theirs, value) \
  static_assert(static_cast<long long>(theirs) == (value), #theirs);
#define SAME_ENUMERATION(ours, theirs, TABLE)                                           \
  static_assert(sizeof(ours) == sizeof(::theirs) && std::is_enum_v<::theirs>, #theirs); \
  TABLE(SAME_CONSTANT)
WEFT_CUDA_ENUMERATIONS(SAME_ENUMERATION)
WEFT_CUDA_FLAGS(SAME_CONSTANT)

template <typename Ours, typename Theirs>
constexpr bool kSameStruct = sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs);

#define SAME_STRUCT(ours, theirs)                      \
  static_assert(kSameStruct<ours, ::theirs>, #theirs); \
  template <>                                          \
  constexpr bool kPair<ours, ::theirs> = true;
#define SAME_FIELD(ours, field, theirs, their_field)                                            \
  static_assert(                                                                                \
      offsetof(ours, field) == offsetof(::theirs, their_field) &&                               \
          sizeof(std::declval<ours&>().field) == sizeof(std::declval<::theirs&>().their_field), \
      #theirs "." #their_field);

template <typename Ours, typename Theirs>
constexpr bool kPair = false;
SAME_STRUCT(Uuid, CUuuid)
SAME_STRUCT(IpcHandle, CUipcMemHandle)
SAME_STRUCT(Location, CUmemLocation)
SAME_STRUCT(AllocationProperties, CUmemAllocationProp)
SAME_STRUCT(AccessDescription, CUmemAccessDesc)
SAME_FIELD(Location, kind, CUmemLocation, type)
SAME_FIELD(Location, id, CUmemLocation, id)
SAME_FIELD(AllocationProperties, kind, CUmemAllocationProp, type)
SAME_FIELD(AllocationProperties, handles, CUmemAllocationProp, requestedHandleTypes)
SAME_FIELD(AllocationProperties, location, CUmemAllocationProp, location)
SAME_FIELD(AllocationProperties, windows_only, CUmemAllocationProp, win32HandleMetaData)
SAME_FIELD(AllocationProperties, flags.compression, CUmemAllocationProp, allocFlags.compressionType)
SAME_FIELD(AllocationProperties, flags.gpudirect, CUmemAllocationProp,
           allocFlags.gpuDirectRDMACapable)
SAME_FIELD(AllocationProperties, flags.usage, CUmemAllocationProp, allocFlags.usage)
SAME_FIELD(AccessDescription, location, CUmemAccessDesc, location)
SAME_FIELD(AccessDescription, access, CUmemAccessDesc, flags)

/// Whether a caller that was compiled with `Ours` passes what a function with `Theirs` expects.
template <typename Ours, typename Theirs>
constexpr bool same() {
  using A = std::remove_cv_t<Ours>;
  using B = std::remove_cv_t<Theirs>;
  constexpr bool is_number =
      (std::is_integral_v<A> || std::is_enum_v<A>)&&(std::is_integral_v<B> || std::is_enum_v<B>);
  if constexpr (std::is_same_v<A, B>)
    return true;
  else if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>)
    return same<std::remove_pointer_t<A>, std::remove_pointer_t<B>>();
  else if constexpr (is_number)
    return sizeof(A) == sizeof(B);
  else
    return kPair<A, B>;
}

template <typename Ours, typename Theirs>
constexpr bool kSameCall = false;
template <typename R, typename... A, typename S, typename... B>
constexpr bool kSameCall<R (*)(A...), S (*)(B...)> = [] {
  if constexpr (sizeof...(A) == sizeof...(B))
    return same<R, S>() && (same<A, B>() && ...);
  else
    return false;
}();

// The check itself tells calls apart.
static_assert(kSameCall<int (*)(unsigned*), CUresult (*)(unsigned int*)>);
static_assert(!kSameCall<int (*)(int), CUresult (*)(CUdeviceptr)>);
static_assert(!kSameCall<int (*)(int), CUresult (*)(int, int)>);
static_assert(!kSameCall<int (*)(Location*), CUresult (*)(CUuuid*)>);

#define SAME_CALL(name, symbol, ...) \
  static_assert(kSameCall<decltype(Driver::name), decltype(&::symbol)>, #symbol);
WEFT_CUDA_CALLS(SAME_CALL)

TEST(CudaHeader, DeclaresWhatWeftDeclares) { SUCCEED() << "as CUDA " << CUDA_VERSION; }

}  // namespace
}  // namespace weft::p2p::cuda
