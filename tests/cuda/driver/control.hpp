// The test's side of the stand-in driver: options, faults, complaints. The driver itself is
// libcuda.so.1, loaded like the real one; this is reached through it, so a program without the
// stand-in has no control.
#pragma once

#include <dlfcn.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "p2p/transport/cuda/api/types.hpp"

namespace weft::stand_in {

using p2p::cuda::Device;
using p2p::cuda::DeviceAttribute;
using p2p::cuda::DevicePointer;
using p2p::cuda::DriverStatus;

/// How streams work off their operations.
enum class Pace : std::uint8_t {
  /// A thread for each stream, with a random delay before each operation.
  threads,
  /// Each operation as late as may be: when a call waits for it, or asks for it often enough, or
  /// step() is called. `idle` bounds how late.
  lazy
};

struct GpuOptions {
  std::string name = "Stand-in GPU";
  std::string bus_id{};         ///< empty: 0000:N1:00.0 for device N
  std::array<char, 16> uuid{};  ///< all zero: one made from the device's number
  std::size_t bytes = std::size_t{4} << 30;
  /// Attributes that differ from the stand-in's own; nullopt: the driver doesn't know it.
  std::vector<std::pair<DeviceAttribute, std::optional<int>>> attributes{};
};

struct Options {
  int driver_version = 12040;
  std::vector<GpuOptions> gpus = std::vector<GpuOptions>(2);
  std::string refused{};    ///< a function that is never permitted
  int first_gpu = 0;        ///< the machine's number of the first one: those before it are hidden
  bool peer_access = true;  ///< GPUs reach each other's memory
  bool peer_writes_lost = false;  ///< though that reports success, writes to the other GPU vanish
  /// They go astray instead: to memory that the writing GPU reads back, and no other.
  bool peer_writes_astray = false;
  /// As a server of MPS: copies into memory of another process that were under way when this
  /// process was killed are made all the same, again and again for some seconds.
  bool mps = false;
  /// A NIC's write is there for copies and kernels after a flush, or a NIC's read.
  bool nic_writes_unseen = false;
  Pace pace = Pace::threads;
  std::uint64_t seed = 1;
  std::chrono::microseconds delay{0};  ///< threads: the longest delay of an operation
  std::chrono::milliseconds idle{
      20};  ///< lazy: an operation that nothing asks for runs after it; 0: never
};

struct Grid {
  unsigned x, y, z;
};

/// A kernel's launch, as its twin sees it.
struct Launch {
  Grid grid, block;
  unsigned shared_bytes;
  Device device;
  std::vector<std::vector<std::byte>> parameters;

  template <typename T>
  T parameter(std::size_t i) const {
    T value;
    __builtin_memcpy(&value, parameters[i].data(), sizeof value);
    return value;
  }
};

/// A kernel's body for the processor, launched by the kernel's name. `run` reaches GPU memory by
/// Control::reach.
struct Twin {
  std::vector<std::size_t> parameter_bytes;
  std::function<void(const Launch&)> run;
};

/// Thread-safe. Names of functions are those of the library, with the version: "cuMemAlloc_v2".
class Control {
 public:
  virtual ~Control() = default;

  /// Begins anew with other options. Nothing may be left over: returns what is, and then does
  /// nothing. Forgets complaints, refusals, twins and counts.
  virtual std::vector<std::string> restart(const Options& options) = 0;

  /// Uses of the driver that a real one would punish, or not notice: hangs, undefined behaviour.
  virtual std::vector<std::string> complaints() = 0;
  /// Forgets the complaints.
  virtual std::vector<std::string> take_complaints() = 0;
  /// Objects that were made and not given back: allocations, mappings, streams, events, contexts,
  /// ...
  virtual std::vector<std::string> leftovers() = 0;
  /// How often a function was called.
  virtual std::uint64_t calls(const std::string& function) = 0;

  /// The `nth` next call of a function (1: the next) answers `status` and does nothing.
  virtual void refuse(const std::string& function, int nth, DriverStatus status) = 0;
  /// Every further call that concerns the device answers `status`; its operations end undone.
  virtual void lose(Device device, DriverStatus status) = 0;

  /// A planted defect: the next `questions` queries of events answer that all has ended.
  virtual void claim_ends(int questions) = 0;

  /// A planted defect: flushes of the driver report success, and do nothing.
  virtual void ignore_flushes(bool ignore) = 0;

  // GPU memory as a NIC of the machine reaches it.
  /// Whether the range is a GPU's, and fit for that.
  virtual bool nic_reaches(DevicePointer pointer, std::size_t bytes) = 0;
  /// Whether the descriptor is a dma-buf of the memory at that address.
  virtual bool is_dma_buf(int fd, std::size_t offset, DevicePointer pointer) = 0;
  // Require nic_reaches().
  virtual void nic_writes(DevicePointer to, const std::byte* from, std::size_t bytes) = 0;
  virtual void nic_reads(std::byte* to, DevicePointer from, std::size_t bytes) = 0;
  /// A planted defect: the next `waits` orders to streams to wait for an event are forgotten.
  virtual void forget_waits(int waits) = 0;
  /// The same for a word: those of a graph are forgotten in all its replays.
  virtual void forget_words(int waits) = 0;

  /// The calling thread acts for the application, which may wait for its own streams.
  virtual void act_for_application(bool on) = 0;
  /// Contexts must be the same at both, or there is a complaint about `call`.
  virtual void call_begins(const char* call) = 0;
  virtual void call_ends() = 0;

  virtual void add_twin(const std::string& kernel, Twin twin) = 0;
  /// Where the processor reaches GPU memory that `device` may access; null: it may not.
  virtual std::byte* reach(DevicePointer pointer, std::size_t bytes, Device device) = 0;
  /// Runs up to `most` operations that could run, drawn by the seed, and returns their number. For
  /// streams without a pace of their own.
  virtual int step(int most) = 0;

  /// The time of lazy streams. While it is stopped, questions move no stream on, and tick() alone
  /// passes: each stream does all that takes no time, and copies that many bytes at most.
  virtual void stop_clock(bool on) = 0;
  virtual void tick(std::size_t bytes) = 0;
};

/// The control of the stand-in that is loaded as libcuda.so.1; null: another driver, or none.
inline Control* control() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  using Get = Control* (*)();
  const auto get = reinterpret_cast<Get>(::dlsym(library, "weft_stand_in"));
  return get == nullptr ? nullptr : get();
}

}  // namespace weft::stand_in
