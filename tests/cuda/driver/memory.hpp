// The stand-in's memory. GPU memory is a memfd that a program sees without any access: a load or
// store ends in SIGSEGV, and a system call answers EFAULT. The stand-in itself writes it by a
// second mapping.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda/driver/machine.hpp"

namespace weft::stand_in {

inline constexpr std::size_t kGranularity = std::size_t{2} << 20;

/// Memory of a GPU, which this process allocated or got from another.
class Physical {
 public:
  /// Allocates; null: no memory. `bytes` are whole pages.
  static std::shared_ptr<Physical> create(int device, std::size_t bytes);
  /// The memory behind a descriptor that this process or another exported; null: there is none.
  static std::shared_ptr<Physical> import(int fd);
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;
  ~Physical();

  /// Whether another process made it.
  bool is_imported() const noexcept { return !own_; }
  int fd() const noexcept { return fd_; }
  int device() const noexcept { return device_; }
  std::size_t bytes() const noexcept { return bytes_; }
  std::byte* hidden() const noexcept { return hidden_; }
  /// Where writes of other GPUs go if they go astray.
  std::byte* astray() {
    if (astray_.empty()) astray_.resize(bytes_);
    return astray_.data();
  }

  bool exportable = false;
  bool gpudirect = false;

 private:
  Physical(int fd, int device, std::size_t bytes, std::byte* hidden, bool own) noexcept
      : fd_(fd), device_(device), bytes_(bytes), hidden_(hidden), own_(own) {}
  int fd_;
  int device_;
  std::size_t bytes_;
  std::byte* hidden_;
  std::vector<std::byte> astray_{};
  bool own_;  ///< counts among the used bytes of its GPU
};
using PhysicalPtr = std::shared_ptr<Physical>;

/// A range of addresses with GPU memory behind it.
struct Mapping {
  enum class Sort : std::uint8_t { allocated, mapped, opened };
  Sort sort = Sort::allocated;
  PhysicalPtr memory{};
  std::size_t offset = 0;  ///< within the memory
  std::size_t bytes = 0;
  std::uint64_t id = 0;
  int opens = 0;  ///< of the same IPC handle
  /// By device; `mapped` alone: the others follow from options.
  std::map<int, p2p::cuda::DeviceAccess> access{};
};

/// A NIC's write that copies and kernels don't see yet.
struct UnseenWrite {
  PhysicalPtr memory;
  std::size_t offset;
  std::vector<std::byte> bytes;
};

struct Held {
  PhysicalPtr memory;
  int references = 1;
};

/// All of this process's memory. Guarded by the machine's mutex.
struct Memory {
  std::map<DevicePointer, Mapping> mappings{};
  std::map<DevicePointer, std::size_t> reservations{};
  std::map<DevicePointer, std::size_t> freed{};  ///< never used again, so that late uses show
  std::map<DevicePointer, std::size_t> registered{};
  std::map<p2p::cuda::AllocationHandle, Held> handles{};
  std::vector<UnseenWrite> unseen{};
  std::uint64_t next_id = 1;
};
Memory& memory();

/// Memory that a NIC reaches; null: it does not.
struct NicReach {
  PhysicalPtr memory{};
  std::size_t offset = 0;
};
NicReach reach_by_nic(DevicePointer pointer, std::size_t bytes);
void write_by_nic(const NicReach& at, const std::byte* from, std::size_t bytes);
/// From now on all that NICs have written into that GPU's memory is seen.
void flush_nic_writes(int device);

enum class Reach : std::uint8_t { read, read_write };

/// Where the processor reaches memory of either kind.
struct Reached {
  std::byte* data = nullptr;
  DriverStatus status = DriverStatus::success;
  PhysicalPtr memory{};  ///< null: host memory
  bool pinned = false;   ///< host memory that is registered
};
/// `device`: the GPU whose copy or kernel it is.
Reached reach_memory(DevicePointer pointer, std::size_t bytes, int device, Reach mode);

/// Whether the range is registered host memory.
bool is_registered(DevicePointer pointer, std::size_t bytes);
/// The mapping that has the address, or end().
std::map<DevicePointer, Mapping>::iterator find_mapping(DevicePointer pointer);
/// Maps memory for the program, at `at` or (0) where there is room; 0: it can't.
DevicePointer show(const Physical& physical, std::size_t offset, std::size_t bytes,
                   DevicePointer at);
/// Takes a range of whole pages back; `keep`: as reserved addresses.
void hide(DevicePointer at, std::size_t bytes, bool keep);

void add_memory_leftovers(std::map<std::string, int>& kinds);
void forget_freed_memory();

}  // namespace weft::stand_in
