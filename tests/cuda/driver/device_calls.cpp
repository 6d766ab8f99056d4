// The driver itself, its devices and their primary contexts.
#include <algorithm>
#include <cstring>

#include "p2p/transport/cuda/api/mps.hpp"
#include "tests/cuda/driver/memory.hpp"

using namespace weft::stand_in;

namespace weft::p2p::cuda {
namespace {

struct Known {
  DriverStatus status;
  const char* name;
};
constexpr Known kKnown[] = {
#define STAND_IN_NAME(name, theirs, value) {DriverStatus::name, #theirs},
    WEFT_CUDA_STATUSES(STAND_IN_NAME)
#undef STAND_IN_NAME
};

const char* name_of(DriverStatus status) {
  const auto* const found = std::find_if(std::begin(kKnown), std::end(kKnown),
                                         [&](const Known& k) { return k.status == status; });
  return found == std::end(kKnown) ? nullptr : found->name;
}

/// The answer of a recent GPU in a server.
int usual(DeviceAttribute attribute) {
  switch (attribute) {
    case DeviceAttribute::compute_major:
      return 9;
    case DeviceAttribute::compute_minor:
      return 0;
    case DeviceAttribute::gpudirect_ordering:
      return static_cast<int>(kOrderedForOwner);
    default:
      return 1;
  }
}

Gpu& gpu(Device device) { return machine().gpus[static_cast<std::size_t>(device)]; }

bool is_context(Context context) {
  return std::any_of(machine().gpus.begin(), machine().gpus.end(),
                     [&](const Gpu& g) { return &g.context == context; });
}

void write_text(const std::string& text, char* to, int length) {
  if (length <= 0) return;
  const std::size_t bytes = std::min(text.size(), static_cast<std::size_t>(length - 1));
  std::memcpy(to, text.data(), bytes);
  to[bytes] = '\0';
}

/// Before cuInit() too: counts the call, and gives what a test wants it to answer.
DriverStatus always(const char* function) {
  const std::lock_guard lock(machine().mutex);
  ++machine().counts[function];
  const auto refusal = machine().refusals.find(function);
  if (refusal == machine().refusals.end() || --refusal->second.left > 0) return kOk;
  const DriverStatus status = refusal->second.status;
  machine().refusals.erase(refusal);
  return status;
}

}  // namespace

extern "C" {

DriverStatus cuInit(unsigned flags) {
  if (const auto refused = always("cuInit"); refused != kOk) return refused;
  const std::lock_guard lock(machine().mutex);
  if (flags != 0) return kInvalid;
  if (machine().gpus.empty()) return DriverStatus::no_device;
  machine().initialised = true;
  return kOk;
}

DriverStatus cuDriverGetVersion(int* version) {
  if (const auto refused = always("cuDriverGetVersion"); refused != kOk) return refused;
  const std::lock_guard lock(machine().mutex);
  *version = machine().options.driver_version;
  return kOk;
}

DriverStatus cuGetErrorName(DriverStatus status, const char** name) {
  *name = name_of(status);
  return *name == nullptr ? kInvalid : kOk;
}

DriverStatus cuGetErrorString(DriverStatus status, const char** text) {
  *text = name_of(status) == nullptr ? nullptr : "as the stand-in driver says";
  return *text == nullptr ? kInvalid : kOk;
}

DriverStatus cuDeviceGetCount(int* count) {
  STAND_IN_CALL(cuDeviceGetCount, false, plain);
  *count = static_cast<int>(machine().gpus.size());
  return kOk;
}

DriverStatus cuDeviceGet(Device* device, int ordinal) {
  STAND_IN_CALL(cuDeviceGet, false, plain);
  if (!machine().is_device(ordinal)) return DriverStatus::invalid_device;
  *device = ordinal;
  return gpu(ordinal).fault;
}

DriverStatus cuDeviceGetName(char* name, int length, Device device) {
  STAND_IN_CALL(cuDeviceGetName, false, plain);
  if (!machine().is_device(device)) return DriverStatus::invalid_device;
  write_text(gpu(device).options.name, name, length);
  return kOk;
}

DriverStatus cuDeviceGetUuid_v2(Uuid* uuid, Device device) {
  STAND_IN_CALL(cuDeviceGetUuid_v2, false, plain);
  if (!machine().is_device(device)) return DriverStatus::invalid_device;
  uuid->bytes = gpu(device).options.uuid;
  if (uuid->bytes == std::array<char, 16>{})
    uuid->bytes.fill(static_cast<char>(0xa0 + machine().options.first_gpu + device));
  return kOk;
}

DriverStatus cuDeviceGetPCIBusId(char* id, int length, Device device) {
  STAND_IN_CALL(cuDeviceGetPCIBusId, false, plain);
  if (!machine().is_device(device)) return DriverStatus::invalid_device;
  const std::string& given = gpu(device).options.bus_id;
  write_text(given.empty() ? "0000:" + std::to_string(device) + "1:00.0" : given, id, length);
  return kOk;
}

DriverStatus cuDeviceGetAttribute(int* value, DeviceAttribute attribute, Device device) {
  STAND_IN_CALL(cuDeviceGetAttribute, false, plain);
  if (!machine().is_device(device)) return DriverStatus::invalid_device;
  *value = attribute == kMpsEnabled ? int{machine().options.mps} : usual(attribute);
  for (const auto& [which, answer] : gpu(device).options.attributes) {
    if (which != attribute) continue;
    if (!answer) return kInvalid;
    *value = *answer;
  }
  return kOk;
}

DriverStatus cuDeviceTotalMem_v2(std::size_t* bytes, Device device) {
  STAND_IN_CALL(cuDeviceTotalMem_v2, false, plain);
  if (!machine().is_device(device)) return DriverStatus::invalid_device;
  *bytes = gpu(device).options.bytes;
  return kOk;
}

DriverStatus cuDeviceCanAccessPeer(int* can, Device device, Device peer) {
  STAND_IN_CALL(cuDeviceCanAccessPeer, false, plain);
  if (!machine().is_device(device) || !machine().is_device(peer))
    return DriverStatus::invalid_device;
  *can = device != peer && machine().options.peer_access ? 1 : 0;
  return kOk;
}

DriverStatus cuDeviceGetP2PAttribute(int* value, PeerAttribute, Device from, Device to) {
  STAND_IN_CALL(cuDeviceGetP2PAttribute, false, plain);
  if (!machine().is_device(from) || !machine().is_device(to) || from == to)
    return DriverStatus::invalid_device;
  *value = machine().options.peer_access ? 1 : 0;
  return kOk;
}

DriverStatus cuDevicePrimaryCtxRetain(Context* context, Device device) {
  STAND_IN_CALL(cuDevicePrimaryCtxRetain, false, waits);
  if (!machine().is_device(device)) return DriverStatus::invalid_device;
  if (gpu(device).fault != kOk) return gpu(device).fault;
  *context = &gpu(device).context;
  ++(*context)->retained;
  return kOk;
}

DriverStatus cuDevicePrimaryCtxRelease_v2(Device device) {
  STAND_IN_CALL(cuDevicePrimaryCtxRelease_v2, false, waits);
  if (!machine().is_device(device)) return DriverStatus::invalid_device;
  if (gpu(device).context.retained == 0) return DriverStatus::invalid_context;
  if (--gpu(device).context.retained == 0) gpu(device).context.peers.clear();
  return kOk;
}

DriverStatus cuDevicePrimaryCtxGetState(Device device, unsigned* flags, int* active) {
  STAND_IN_CALL(cuDevicePrimaryCtxGetState, false, plain);
  if (!machine().is_device(device)) return DriverStatus::invalid_device;
  *flags = 0;
  *active = gpu(device).context.retained > 0 ? 1 : 0;
  return kOk;
}

DriverStatus cuCtxPushCurrent_v2(Context context) {
  STAND_IN_CALL(cuCtxPushCurrent_v2, false, plain);
  if (!is_context(context) || context->retained == 0) return DriverStatus::invalid_context;
  Machine::thread().contexts.push_back(context);
  ++Machine::thread().pushed;
  return kOk;
}

DriverStatus cuCtxPopCurrent_v2(Context* context) {
  STAND_IN_CALL(cuCtxPopCurrent_v2, false, plain);
  auto& contexts = Machine::thread().contexts;
  if (contexts.empty()) return DriverStatus::invalid_context;
  if (context != nullptr) *context = contexts.back();
  contexts.pop_back();
  --Machine::thread().pushed;
  return kOk;
}

DriverStatus cuCtxGetCurrent(Context* context) {
  STAND_IN_CALL(cuCtxGetCurrent, false, plain);
  *context = machine().current();
  return kOk;
}

DriverStatus cuCtxSetCurrent(Context context) {
  STAND_IN_CALL(cuCtxSetCurrent, false, plain);
  auto& contexts = Machine::thread().contexts;
  if (context != nullptr && (!is_context(context) || context->retained == 0))
    return DriverStatus::invalid_context;
  if (!contexts.empty()) contexts.pop_back();
  if (context != nullptr) contexts.push_back(context);
  return kOk;
}

DriverStatus cuCtxGetDevice(Device* device) {
  STAND_IN_CALL(cuCtxGetDevice, true, plain);
  *device = machine().current()->device;
  return kOk;
}

DriverStatus cuCtxEnablePeerAccess(Context peer, unsigned flags) {
  STAND_IN_CALL(cuCtxEnablePeerAccess, true, waits);
  if (flags != 0 || !is_context(peer)) return kInvalid;
  if (!machine().options.peer_access || peer == machine().current())
    return DriverStatus::peer_access_unsupported;
  return machine().current()->peers.insert(peer).second ? kOk : DriverStatus::peer_access_enabled;
}

DriverStatus cuFlushGPUDirectRDMAWrites(FlushTarget, FlushScope) {
  STAND_IN_CALL(cuFlushGPUDirectRDMAWrites, true, plain);
  if (!machine().flushes_ignored) flush_nic_writes(machine().current()->device);
  return kOk;
}

}  // extern "C"
}  // namespace weft::p2p::cuda
