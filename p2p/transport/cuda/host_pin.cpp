#include "p2p/transport/cuda/host_pin.hpp"

#include <map>
#include <mutex>

#include "p2p/transport/cuda/relaxation.hpp"

namespace weft::p2p::cuda {
namespace {

struct Registration {
  std::shared_ptr<Gpu> gpu;
  std::size_t shares = 0;
};

struct Registrations {
  std::mutex mutex;
  std::map<std::byte*, Registration> by_address;

  /// Requires the mutex. Those of before a fork are not the fork's.
  Registration* find(std::byte* data) {
    const auto found = by_address.find(data);
    if (found == by_address.end() || found->second.gpu->forked()) return nullptr;
    return &found->second;
  }
};

Registrations& registrations() {
  static auto* const all = new Registrations;  // copies that outlive their worlds keep shares
  return *all;
}

}  // namespace

HostPin HostPin::find(std::byte* data) {
  const std::lock_guard lock(registrations().mutex);
  Registration* const known = registrations().find(data);
  if (known == nullptr) return {};
  ++known->shares;
  return HostPin(data);
}

HostPin HostPin::make(const std::shared_ptr<Gpu>& gpu, std::byte* data, std::size_t bytes,
                      bool is_writable, DriverStatus& why) {
  const std::lock_guard lock(registrations().mutex);
  why = DriverStatus::success;
  if (Registration* const known = registrations().find(data); known != nullptr) {
    ++known->shares;
    return HostPin(data);
  }
  Registration& made = registrations().by_address[data] = {};
  const ScopedRelaxation relaxed(gpu->driver());
  why = gpu->driver().register_host(
      data, bytes, kHostRegisterPortable | (is_writable ? 0U : kHostRegisterReadOnly));
  if (why != DriverStatus::success) {
    registrations().by_address.erase(data);
    return {};
  }
  made = {gpu, 1};
  return HostPin(data);
}

HostPin::~HostPin() {
  if (data_ == nullptr) return;
  std::shared_ptr<Gpu> gpu;  // goes when the lock has
  const std::lock_guard lock(registrations().mutex);
  Registration* const known = registrations().find(data_);
  if (known == nullptr || --known->shares != 0) return;
  gpu = std::move(known->gpu);
  registrations().by_address.erase(data_);
  try {
    const Gpu::Current current(*gpu);
    const ScopedRelaxation relaxed(gpu->driver());
    (void)gpu->driver().unregister_host(data_);
  } catch (const Error&) {
    return;  // the GPU is lost, and its pins with it
  }
}

}  // namespace weft::p2p::cuda
