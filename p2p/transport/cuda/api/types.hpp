// The CUDA driver's types, as far as weft uses them, declared here so that building weft needs no
// CUDA toolkit. A test compares them with cuda.h where there is one.
//
// Each enumeration comes from a table `CONSTANT(name, NAME_IN_CUDA_H, value)`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

// Handles: pointers to these, which only the driver knows. The tags are the driver's own.
struct CUctx_st;
struct CUevent_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUgraphNode_st;
struct CUmod_st;
struct CUstream_st;
struct CUuserObject_st;

/// The answers of calls. The driver has others too, which error_text() names.
#define WEFT_CUDA_STATUSES(CONSTANT)                                           \
  CONSTANT(success, CUDA_SUCCESS, 0)                                           \
  CONSTANT(invalid_value, CUDA_ERROR_INVALID_VALUE, 1)                         \
  CONSTANT(out_of_memory, CUDA_ERROR_OUT_OF_MEMORY, 2)                         \
  CONSTANT(not_initialized, CUDA_ERROR_NOT_INITIALIZED, 3)                     \
  CONSTANT(deinitialized, CUDA_ERROR_DEINITIALIZED, 4)                         \
  CONSTANT(stub_library, CUDA_ERROR_STUB_LIBRARY, 34)                          \
  CONSTANT(device_unavailable, CUDA_ERROR_DEVICE_UNAVAILABLE, 46)              \
  CONSTANT(no_device, CUDA_ERROR_NO_DEVICE, 100)                               \
  CONSTANT(invalid_device, CUDA_ERROR_INVALID_DEVICE, 101)                     \
  CONSTANT(invalid_image, CUDA_ERROR_INVALID_IMAGE, 200)                       \
  CONSTANT(invalid_context, CUDA_ERROR_INVALID_CONTEXT, 201)                   \
  CONSTANT(no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU, 209)               \
  CONSTANT(ecc_uncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE, 214)               \
  CONSTANT(peer_access_unsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217)   \
  CONSTANT(invalid_handle, CUDA_ERROR_INVALID_HANDLE, 400)                     \
  CONSTANT(not_found, CUDA_ERROR_NOT_FOUND, 500)                               \
  CONSTANT(not_ready, CUDA_ERROR_NOT_READY, 600)                               \
  CONSTANT(illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS, 700)                   \
  CONSTANT(peer_access_enabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704)   \
  CONSTANT(already_registered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712) \
  CONSTANT(not_registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713)         \
  CONSTANT(launch_failed, CUDA_ERROR_LAUNCH_FAILED, 719)                       \
  CONSTANT(not_permitted, CUDA_ERROR_NOT_PERMITTED, 800)                       \
  CONSTANT(not_supported, CUDA_ERROR_NOT_SUPPORTED, 801)                       \
  CONSTANT(capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)    \
  CONSTANT(capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)    \
  CONSTANT(capture_unmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903)        \
  CONSTANT(capture_unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904)          \
  CONSTANT(captured_event, CUDA_ERROR_CAPTURED_EVENT, 907)                     \
  CONSTANT(capture_wrong_thread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908)  \
  CONSTANT(unknown, CUDA_ERROR_UNKNOWN, 999)

#define WEFT_CUDA_DEVICE_ATTRIBUTES(CONSTANT)                                                     \
  CONSTANT(unified_addressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)                        \
  CONSTANT(compute_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                       \
  CONSTANT(compute_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                       \
  CONSTANT(host_pointer_usable, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 91)  \
  CONSTANT(host_register, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 99)                        \
  CONSTANT(virtual_memory, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102)          \
  CONSTANT(export_by_descriptor, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, \
           103)                                                                                   \
  CONSTANT(gpudirect_of_virtual_memory,                                                           \
           CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 110)                      \
  CONSTANT(gpudirect, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 116)                         \
  CONSTANT(gpudirect_flush, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 117)        \
  CONSTANT(gpudirect_ordering, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 118)          \
  CONSTANT(memory_operations_64, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 122)          \
  CONSTANT(dma_buf, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 124)

#define WEFT_CUDA_PEER_ATTRIBUTES(CONSTANT) \
  CONSTANT(access, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 2)

#define WEFT_CUDA_POINTER_ATTRIBUTES(CONSTANT)                               \
  CONSTANT(context, CU_POINTER_ATTRIBUTE_CONTEXT, 1)                         \
  CONSTANT(memory_kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                 \
  CONSTANT(device_pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 3)           \
  CONSTANT(sync_memops, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 6)                 \
  CONSTANT(buffer_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, 7)                     \
  CONSTANT(is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, 8)                   \
  CONSTANT(device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)           \
  CONSTANT(ipc_capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 10) \
  CONSTANT(range_start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)           \
  CONSTANT(range_bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12)                 \
  CONSTANT(mapped, CU_POINTER_ATTRIBUTE_MAPPED, 13)                          \
  CONSTANT(allowed_handles, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, 14)   \
  CONSTANT(gpudirect_capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, 15)

#define WEFT_CUDA_MEMORY_KINDS(CONSTANT) \
  CONSTANT(host, CU_MEMORYTYPE_HOST, 1)  \
  CONSTANT(device, CU_MEMORYTYPE_DEVICE, 2)

#define WEFT_CUDA_ALLOCATION_KINDS(CONSTANT) CONSTANT(pinned, CU_MEM_ALLOCATION_TYPE_PINNED, 1)

#define WEFT_CUDA_HANDLE_KINDS(CONSTANT)     \
  CONSTANT(none, CU_MEM_HANDLE_TYPE_NONE, 0) \
  CONSTANT(descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1)

#define WEFT_CUDA_LOCATION_KINDS(CONSTANT) CONSTANT(device, CU_MEM_LOCATION_TYPE_DEVICE, 1)

#define WEFT_CUDA_ACCESSES(CONSTANT)               \
  CONSTANT(none, CU_MEM_ACCESS_FLAGS_PROT_NONE, 0) \
  CONSTANT(read, CU_MEM_ACCESS_FLAGS_PROT_READ, 1) \
  CONSTANT(write, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3)

#define WEFT_CUDA_GRANULARITIES(CONSTANT) CONSTANT(minimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM, 0)

#define WEFT_CUDA_RANGE_HANDLES(CONSTANT) CONSTANT(dma_buf, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 1)

#define WEFT_CUDA_CAPTURE_MODES(CONSTANT)                         \
  CONSTANT(global, CU_STREAM_CAPTURE_MODE_GLOBAL, 0)              \
  CONSTANT(thread_local_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1) \
  CONSTANT(relaxed, CU_STREAM_CAPTURE_MODE_RELAXED, 2)

#define WEFT_CUDA_CAPTURE_STATUSES(CONSTANT)           \
  CONSTANT(none, CU_STREAM_CAPTURE_STATUS_NONE, 0)     \
  CONSTANT(active, CU_STREAM_CAPTURE_STATUS_ACTIVE, 1) \
  CONSTANT(invalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)

#define WEFT_CUDA_FLUSH_TARGETS(CONSTANT) \
  CONSTANT(current_context, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, 0)

#define WEFT_CUDA_FLUSH_SCOPES(CONSTANT)                         \
  CONSTANT(owner, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER, 100) \
  CONSTANT(all_devices, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES, 200)

/// Numbers and flags that calls take as plain integers.
#define WEFT_CUDA_FLAGS(CONSTANT)                                                      \
  CONSTANT(kStreamNonBlocking, CU_STREAM_NON_BLOCKING, 1)                              \
  CONSTANT(kEventDisableTiming, CU_EVENT_DISABLE_TIMING, 2)                            \
  CONSTANT(kWaitValueGreaterOrEqual, CU_STREAM_WAIT_VALUE_GEQ, 0)                      \
  CONSTANT(kWaitValueEqual, CU_STREAM_WAIT_VALUE_EQ, 1)                                \
  CONSTANT(kUserObjectNoDestructorSync, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, 1)          \
  CONSTANT(kGraphUserObjectMove, CU_GRAPH_USER_OBJECT_MOVE, 1)                         \
  CONSTANT(kWriteValueDefault, CU_STREAM_WRITE_VALUE_DEFAULT, 0)                       \
  CONSTANT(kHostRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE, 1)                      \
  CONSTANT(kHostRegisterMapped, CU_MEMHOSTREGISTER_DEVICEMAP, 2)                       \
  CONSTANT(kIpcLazyPeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, 1)                  \
  CONSTANT(kFlushByCall, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST, 1)               \
  CONSTANT(kOrderedForNone, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE, 0)                \
  CONSTANT(kOrderedForOwner, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER, 100)            \
  CONSTANT(kOrderedForAllDevices, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES, 200) \
  CONSTANT(kIpcHandleBytes, CU_IPC_HANDLE_SIZE, 64)

/// All enumerations: weft's name, the driver's, the table.
#define WEFT_CUDA_ENUMERATIONS(ENUMERATION)                                           \
  ENUMERATION(DriverStatus, CUresult, WEFT_CUDA_STATUSES)                             \
  ENUMERATION(DeviceAttribute, CUdevice_attribute, WEFT_CUDA_DEVICE_ATTRIBUTES)       \
  ENUMERATION(PeerAttribute, CUdevice_P2PAttribute, WEFT_CUDA_PEER_ATTRIBUTES)        \
  ENUMERATION(PointerAttribute, CUpointer_attribute, WEFT_CUDA_POINTER_ATTRIBUTES)    \
  ENUMERATION(MemoryKind, CUmemorytype, WEFT_CUDA_MEMORY_KINDS)                       \
  ENUMERATION(AllocationKind, CUmemAllocationType, WEFT_CUDA_ALLOCATION_KINDS)        \
  ENUMERATION(HandleKind, CUmemAllocationHandleType, WEFT_CUDA_HANDLE_KINDS)          \
  ENUMERATION(LocationKind, CUmemLocationType, WEFT_CUDA_LOCATION_KINDS)              \
  ENUMERATION(DeviceAccess, CUmemAccess_flags, WEFT_CUDA_ACCESSES)                    \
  ENUMERATION(Granularity, CUmemAllocationGranularity_flags, WEFT_CUDA_GRANULARITIES) \
  ENUMERATION(RangeHandle, CUmemRangeHandleType, WEFT_CUDA_RANGE_HANDLES)             \
  ENUMERATION(CaptureMode, CUstreamCaptureMode, WEFT_CUDA_CAPTURE_MODES)              \
  ENUMERATION(CaptureStatus, CUstreamCaptureStatus, WEFT_CUDA_CAPTURE_STATUSES)       \
  ENUMERATION(FlushTarget, CUflushGPUDirectRDMAWritesTarget, WEFT_CUDA_FLUSH_TARGETS) \
  ENUMERATION(FlushScope, CUflushGPUDirectRDMAWritesScope, WEFT_CUDA_FLUSH_SCOPES)

namespace weft::p2p::cuda {

#define WEFT_CUDA_ENUMERATOR(name, theirs, value) name = (value),
#define WEFT_CUDA_ENUMERATION(name, theirs, TABLE) \
  enum class name : unsigned { TABLE(WEFT_CUDA_ENUMERATOR) };
#define WEFT_CUDA_FLAG(name, theirs, value) inline constexpr unsigned name = value;
WEFT_CUDA_ENUMERATIONS(WEFT_CUDA_ENUMERATION)
WEFT_CUDA_FLAGS(WEFT_CUDA_FLAG)
#undef WEFT_CUDA_ENUMERATOR
#undef WEFT_CUDA_ENUMERATION
#undef WEFT_CUDA_FLAG

/// An address of GPU memory, in the space that it shares with the processor's addresses.
using DevicePointer = unsigned long long;
/// An ordinal among the GPUs that this process sees.
using Device = int;
using Context = CUctx_st*;
using Event = CUevent_st*;
using Function = CUfunc_st*;
using Graph = CUgraph_st*;
using GraphNode = CUgraphNode_st*;
using UserObject = CUuserObject_st*;
using GraphExec = CUgraphExec_st*;
using Module = CUmod_st*;
using StreamHandle = CUstream_st*;
/// Physical memory that can be mapped.
using AllocationHandle = unsigned long long;
using HostFunction = void (*)(void* user);

struct Uuid {
  std::array<char, 16> bytes;
};

struct IpcHandle {
  std::array<char, kIpcHandleBytes> reserved;
};

struct Location {
  LocationKind kind;
  int id;
};

struct AllocationProperties {
  AllocationKind kind;
  HandleKind handles;
  Location location;
  void* windows_only;
  struct {
    unsigned char compression;
    unsigned char gpudirect;
    unsigned short usage;
    std::array<unsigned char, 4> reserved;
  } flags;
};

struct AccessDescription {
  Location location;
  DeviceAccess access;
};

}  // namespace weft::p2p::cuda
