// All that the doctor looks at. Tests put a folder and answers of their own in its place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "topology/discover/discover.hpp"

namespace weft::doctor {

/// A resource limit, in bytes.
struct Limit {
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t soft = kNone;
  std::uint64_t hard = kNone;  ///< what the user may raise the soft one to
};

/// How a shared library answered to being loaded.
struct LibraryAnswer {
  bool loaded = false;
  std::string detail{};  ///< its version where it tells one; or the loader's words
};

struct Room {
  std::uint64_t bytes = 0;
  std::uint64_t free_bytes = 0;
};

struct Host {
  std::filesystem::path root = "/";  ///< where /sys, /proc, /dev, /etc and /usr are looked up
  std::string kernel{};              ///< "6.1.0-18-amd64"
  bool may_lock = false;  ///< CAP_IPC_LOCK that the kernel honours: RLIMIT_MEMLOCK does not bind
  Limit memlock{};
  Limit file_size{};
  double cpus = 1;               ///< that this process may use; a quota may make it a fraction
  std::optional<int> gid_index;  ///< WEFT_IB_GID, unless auto
  std::string program_path{};    ///< PATH

  /// Opens a file ("/dev/infiniband/uverbs0") for reading and writing; returns 0 or errno.
  std::function<int(const std::string& file)> try_open;
  /// What the file system of a folder holds. nullopt: there is none.
  std::function<std::optional<Room>(const std::string& folder)> room;
  /// Makes a memfd; returns 0 or errno.
  std::function<int()> try_memfd;
  std::function<LibraryAnswer(const std::string& file)> library;
  std::function<topology::CudaAnswer()> cuda;
};

/// This machine as this process sees it. Libraries are loaded when a check asks for them.
Host live_host();

}  // namespace weft::doctor
