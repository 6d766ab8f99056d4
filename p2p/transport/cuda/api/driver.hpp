// The CUDA driver as weft sees it: one table of its functions, filled when the driver is loaded.
#pragma once

#include "p2p/transport/cuda/api/types.hpp"

/// The functions that weft calls: weft's name, the library's, the parameters. All have been there
/// since CUDA 12.0, and in CUDA 13 have the same form under these names.
#define WEFT_CUDA_CALLS(CALL)                                                                      \
  CALL(init, cuInit, unsigned)                                                                     \
  CALL(version, cuDriverGetVersion, int*)                                                          \
  CALL(error_name, cuGetErrorName, DriverStatus, const char**)                                     \
  CALL(error_string, cuGetErrorString, DriverStatus, const char**)                                 \
  CALL(device_count, cuDeviceGetCount, int*)                                                       \
  CALL(device, cuDeviceGet, Device*, int)                                                          \
  CALL(device_name, cuDeviceGetName, char*, int, Device)                                           \
  CALL(device_uuid, cuDeviceGetUuid_v2, Uuid*, Device)                                             \
  CALL(device_bus_id, cuDeviceGetPCIBusId, char*, int, Device)                                     \
  CALL(device_attribute, cuDeviceGetAttribute, int*, DeviceAttribute, Device)                      \
  CALL(device_bytes, cuDeviceTotalMem_v2, std::size_t*, Device)                                    \
  CALL(can_access_peer, cuDeviceCanAccessPeer, int*, Device, Device)                               \
  CALL(peer_attribute, cuDeviceGetP2PAttribute, int*, PeerAttribute, Device, Device)               \
  CALL(retain_context, cuDevicePrimaryCtxRetain, Context*, Device)                                 \
  CALL(release_context, cuDevicePrimaryCtxRelease_v2, Device)                                      \
  CALL(context_state, cuDevicePrimaryCtxGetState, Device, unsigned*, int*)                         \
  CALL(push_context, cuCtxPushCurrent_v2, Context)                                                 \
  CALL(pop_context, cuCtxPopCurrent_v2, Context*)                                                  \
  CALL(current_context, cuCtxGetCurrent, Context*)                                                 \
  CALL(set_context, cuCtxSetCurrent, Context)                                                      \
  CALL(context_device, cuCtxGetDevice, Device*)                                                    \
  CALL(enable_peer, cuCtxEnablePeerAccess, Context, unsigned)                                      \
  CALL(memory_info, cuMemGetInfo_v2, std::size_t*, std::size_t*)                                   \
  CALL(allocate, cuMemAlloc_v2, DevicePointer*, std::size_t)                                       \
  CALL(free, cuMemFree_v2, DevicePointer)                                                          \
  CALL(address_range, cuMemGetAddressRange_v2, DevicePointer*, std::size_t*, DevicePointer)        \
  CALL(register_host, cuMemHostRegister_v2, void*, std::size_t, unsigned)                          \
  CALL(unregister_host, cuMemHostUnregister, void*)                                                \
  CALL(host_device_pointer, cuMemHostGetDevicePointer_v2, DevicePointer*, void*, unsigned)         \
  CALL(pointer_attribute, cuPointerGetAttribute, void*, PointerAttribute, DevicePointer)           \
  CALL(set_pointer_attribute, cuPointerSetAttribute, const void*, PointerAttribute, DevicePointer) \
  CALL(range_handle, cuMemGetHandleForAddressRange, void*, DevicePointer, std::size_t,             \
       RangeHandle, unsigned long long)                                                            \
  CALL(reserve_address, cuMemAddressReserve, DevicePointer*, std::size_t, std::size_t,             \
       DevicePointer, unsigned long long)                                                          \
  CALL(free_address, cuMemAddressFree, DevicePointer, std::size_t)                                 \
  CALL(create_memory, cuMemCreate, AllocationHandle*, std::size_t, const AllocationProperties*,    \
       unsigned long long)                                                                         \
  CALL(release_memory, cuMemRelease, AllocationHandle)                                             \
  CALL(map_memory, cuMemMap, DevicePointer, std::size_t, std::size_t, AllocationHandle,            \
       unsigned long long)                                                                         \
  CALL(unmap_memory, cuMemUnmap, DevicePointer, std::size_t)                                       \
  CALL(set_access, cuMemSetAccess, DevicePointer, std::size_t, const AccessDescription*,           \
       std::size_t)                                                                                \
  CALL(export_memory, cuMemExportToShareableHandle, void*, AllocationHandle, HandleKind,           \
       unsigned long long)                                                                         \
  CALL(import_memory, cuMemImportFromShareableHandle, AllocationHandle*, void*, HandleKind)        \
  CALL(granularity, cuMemGetAllocationGranularity, std::size_t*, const AllocationProperties*,      \
       Granularity)                                                                                \
  CALL(retain_memory, cuMemRetainAllocationHandle, AllocationHandle*, void*)                       \
  CALL(ipc_export, cuIpcGetMemHandle, IpcHandle*, DevicePointer)                                   \
  CALL(ipc_open, cuIpcOpenMemHandle_v2, DevicePointer*, IpcHandle, unsigned)                       \
  CALL(ipc_close, cuIpcCloseMemHandle, DevicePointer)                                              \
  CALL(create_stream, cuStreamCreate, StreamHandle*, unsigned)                                     \
  CALL(destroy_stream, cuStreamDestroy_v2, StreamHandle)                                           \
  CALL(query_stream, cuStreamQuery, StreamHandle)                                                  \
  CALL(synchronize_stream, cuStreamSynchronize, StreamHandle)                                      \
  CALL(wait_event, cuStreamWaitEvent, StreamHandle, Event, unsigned)                               \
  CALL(wait_value32, cuStreamWaitValue32_v2, StreamHandle, DevicePointer, std::uint32_t, unsigned) \
  CALL(write_value32, cuStreamWriteValue32_v2, StreamHandle, DevicePointer, std::uint32_t,         \
       unsigned)                                                                                   \
  CALL(stream_context, cuStreamGetCtx, StreamHandle, Context*)                                     \
  CALL(launch_host_function, cuLaunchHostFunc, StreamHandle, HostFunction, void*)                  \
  CALL(create_event, cuEventCreate, Event*, unsigned)                                              \
  CALL(destroy_event, cuEventDestroy_v2, Event)                                                    \
  CALL(record_event, cuEventRecord, Event, StreamHandle)                                           \
  CALL(query_event, cuEventQuery, Event)                                                           \
  CALL(synchronize_event, cuEventSynchronize, Event)                                               \
  CALL(copy, cuMemcpyAsync, DevicePointer, DevicePointer, std::size_t, StreamHandle)               \
  CALL(set_bytes, cuMemsetD8Async, DevicePointer, unsigned char, std::size_t, StreamHandle)        \
  CALL(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, CaptureMode*)                     \
  CALL(begin_capture, cuStreamBeginCapture_v2, StreamHandle, CaptureMode)                          \
  CALL(end_capture, cuStreamEndCapture, StreamHandle, Graph*)                                      \
  CALL(capture_status, cuStreamIsCapturing, StreamHandle, CaptureStatus*)                          \
  CALL(capture_info, cuStreamGetCaptureInfo_v2, StreamHandle, CaptureStatus*, std::uint64_t*,      \
       Graph*, const GraphNode**, std::size_t*)                                                    \
  CALL(create_user_object, cuUserObjectCreate, UserObject*, void*, HostFunction, unsigned,         \
       unsigned)                                                                                   \
  CALL(release_user_object, cuUserObjectRelease, UserObject, unsigned)                             \
  CALL(retain_user_object, cuGraphRetainUserObject, Graph, UserObject, unsigned, unsigned)         \
  CALL(instantiate_graph, cuGraphInstantiateWithFlags, GraphExec*, Graph, unsigned long long)      \
  CALL(launch_graph, cuGraphLaunch, GraphExec, StreamHandle)                                       \
  CALL(destroy_graph, cuGraphDestroy, Graph)                                                       \
  CALL(destroy_graph_exec, cuGraphExecDestroy, GraphExec)                                          \
  CALL(load_module, cuModuleLoadData, Module*, const void*)                                        \
  CALL(unload_module, cuModuleUnload, Module)                                                      \
  CALL(function, cuModuleGetFunction, Function*, Module, const char*)                              \
  CALL(launch, cuLaunchKernel, Function, unsigned, unsigned, unsigned, unsigned, unsigned,         \
       unsigned, unsigned, StreamHandle, void**, void**)                                           \
  CALL(flush_gpudirect, cuFlushGPUDirectRDMAWrites, FlushTarget, FlushScope)

namespace weft::p2p::cuda {

/// The driver's functions. They report errors by their status alone, never throw, and may be called
/// by any thread; most work on the calling thread's current context. NVIDIA's manual of the driver
/// API describes each under the library's name.
struct Driver {
#define WEFT_CUDA_POINTER(name, symbol, ...) DriverStatus (*name)(__VA_ARGS__) = nullptr;
  WEFT_CUDA_CALLS(WEFT_CUDA_POINTER)
#undef WEFT_CUDA_POINTER
};

}  // namespace weft::p2p::cuda
