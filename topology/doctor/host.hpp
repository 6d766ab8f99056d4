// All inputs of the doctor. Tests replace them with a folder and with answers of their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "topology/discover/discover.hpp"
#include "topology/doctor/qdiscs.hpp"

namespace weft::doctor {

/// A resource limit, in bytes.
struct Limit {
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t soft = kNone;
  std::uint64_t hard = kNone;  ///< limit up to which the user may raise `soft`
};

/// The result of loading a shared library.
struct LibraryAnswer {
  bool loaded = false;
  std::string detail{};  ///< its version, if the library reports one; or the loader's error
};

/// Capacity of a file system.
struct Room {
  std::uint64_t bytes = 0;
  std::uint64_t free_bytes = 0;
};

struct Host {
  /// Prefix of /sys, /proc, /dev, /etc and /usr; HWLOC_FSROOT is the same for hwloc.
  std::filesystem::path root = "/";
  std::string kernel{};   ///< "6.1.0-18-amd64"
  bool may_lock = false;  ///< CAP_IPC_LOCK that the kernel honours: RLIMIT_MEMLOCK does not apply
  Limit memlock{};
  Limit file_size{};
  double cpus = 1;               ///< processors that this process may use; a fraction with a quota
  std::optional<int> gid_index;  ///< WEFT_IB_GID, unless auto
  std::string program_path{};    ///< PATH

  /// Opens a file ("/dev/infiniband/uverbs0") for reading and writing; returns 0 or errno.
  std::function<int(const std::string& file)> try_open;
  /// The capacity of the file system at `folder`; nullopt if there is none.
  std::function<std::optional<Room>(const std::string& folder)> room;
  /// Creates a memfd; returns 0 or errno.
  std::function<int()> try_memfd;
  std::function<LibraryAnswer(const std::string& file)> library;
  std::function<topology::CudaAnswer()> cuda;
  std::function<QdiscAnswer()> qdiscs;
};

/// The machine as this process sees it. A library is loaded when a check asks for it.
Host live_host();

}  // namespace weft::doctor
