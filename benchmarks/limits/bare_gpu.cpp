#include "benchmarks/limits/bare_gpu.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <new>
#include <stdexcept>

#include "p2p/transport/cuda/api/load.hpp"

namespace weft::bench {

using namespace p2p::cuda;

std::optional<std::string> no_gpu() {
  const auto loaded = load_driver();
  if (loaded.ok()) return std::nullopt;
  return loaded.status().detail().message;
}

BareGpu::BareGpu(int ordinal) : driver_(*load_driver().value()), ordinal_(ordinal) {
  std::array<char, 256> name{};
  check(driver_.device_name(name.data(), static_cast<int>(name.size()) - 1, ordinal),
        "cuDeviceGetName");
  name_ = name.data();
  check(driver_.retain_context(&context_, ordinal), "cuDevicePrimaryCtxRetain");
  check(driver_.push_context(context_), "cuCtxPushCurrent");
  check(driver_.create_stream(&stream_, kStreamNonBlocking), "cuStreamCreate");
  check(driver_.create_event(&event_, kEventDisableTiming), "cuEventCreate");
}

BareGpu::~BareGpu() {
  for (const Address memory : opened_) (void)driver_.ipc_close(memory);
  for (const Address memory : allocated_) (void)driver_.free(memory);
  for (void* const memory : pinned_) {
    (void)driver_.unregister_host(memory);
    std::free(memory);
  }
  (void)driver_.destroy_event(event_);
  (void)driver_.destroy_stream(stream_);
  Context popped = nullptr;
  (void)driver_.pop_context(&popped);
  (void)driver_.release_context(ordinal_);
}

BareGpu::Address BareGpu::allocate(std::size_t bytes) {
  Address memory = 0;
  check(driver_.allocate(&memory, bytes), "cuMemAlloc");
  allocated_.push_back(memory);
  return memory;
}

BareGpu::Address BareGpu::pin(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t whole = (bytes + kPage - 1) / kPage * kPage;
  void* const memory = std::aligned_alloc(kPage, whole);
  if (memory == nullptr) throw std::bad_alloc();
  check(driver_.register_host(memory, whole, kHostRegisterPortable), "cuMemHostRegister");
  pinned_.push_back(memory);
  return reinterpret_cast<Address>(memory);
}

IpcHandle BareGpu::share(Address memory) {
  IpcHandle handle{};
  check(driver_.ipc_export(&handle, memory), "cuIpcGetMemHandle");
  return handle;
}

BareGpu::Address BareGpu::open(const IpcHandle& handle) {
  Address memory = 0;
  check(driver_.ipc_open(&memory, handle, kIpcLazyPeerAccess), "cuIpcOpenMemHandle");
  opened_.push_back(memory);
  return memory;
}

void BareGpu::copy(Address to, Address from, std::size_t bytes) {
  check(driver_.copy(to, from, bytes, stream_), "cuMemcpyAsync");
  check(driver_.record_event(event_, stream_), "cuEventRecord");
  DriverStatus status = DriverStatus::not_ready;
  while ((status = driver_.query_event(event_)) == DriverStatus::not_ready) {
  }
  check(status, "cuEventQuery");
}

void BareGpu::check(DriverStatus status, const char* function) const {
  if (status == DriverStatus::success) return;
  throw std::runtime_error(
      fmt::format("GPU {}: {}: {}", ordinal_, function, error_text(driver_, status)));
}

}  // namespace weft::bench
