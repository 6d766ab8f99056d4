#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "base/os/cpus.hpp"
#include "base/os/fd.hpp"
#include "topology/discover/discover.hpp"
#include "topology/discover/files.hpp"
#include "topology/discover/hwloc/hwloc_machine.hpp"
#include "topology/doctor/host.hpp"
#include "topology/parse/numbers.hpp"

namespace weft::doctor {
namespace {

struct CloseLibrary {
  void operator()(void* library) const noexcept { ::dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

Library load(const char* file) { return Library(::dlopen(file, RTLD_NOW | RTLD_LOCAL)); }

std::string loader_words() {
  const char* words = ::dlerror();
  return words == nullptr ? "not found" : words;
}

template <typename Function>
Function* find(const Library& library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library.get(), name));
}

Limit limit_of(decltype(RLIMIT_FSIZE) which) {
  ::rlimit limit{};
  if (::getrlimit(which, &limit) != 0) return {};
  const auto bytes = [](rlim_t value) -> std::uint64_t {
    return value == RLIM_INFINITY ? Limit::kNone : value;
  };
  return {bytes(limit.rlim_cur), bytes(limit.rlim_max)};
}

/// True with CAP_IPC_LOCK in the initial user namespace: in others the kernel ignores the
/// capability.
bool may_lock() {
  constexpr unsigned kCapIpcLock = 14;
  const auto map = topology::Files("").read("/proc/self/uid_map").value_or("");
  const bool first_namespace = map.find("4294967295") != map.npos;
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("CapEff:")) continue;
    std::uint64_t bits = 0;
    const auto digits = line.find_first_not_of(" \t", 7);
    if (digits == line.npos) return false;
    std::from_chars(line.data() + digits, line.data() + line.size(), bits, 16);
    return first_namespace && (bits >> kCapIpcLock & 1) != 0;
  }
  return false;
}

int try_open(const std::string& file) {
  const os::Fd fd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  return fd ? 0 : errno;
}

std::optional<Room> room(const std::string& folder) {
  struct ::statvfs answer {};
  if (::statvfs(folder.c_str(), &answer) != 0) return std::nullopt;
  return Room{answer.f_blocks * answer.f_frsize, answer.f_bavail * answer.f_frsize};
}

int try_memfd() {
  const os::Fd fd(::memfd_create("weft-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  return fd ? 0 : errno;
}

LibraryAnswer ask_library(const std::string& file) {
  const auto library = load(file.c_str());
  if (!library) return {false, loader_words()};
  LibraryAnswer answer{true, {}};
  if (auto* version = find<const char*()>(library, "PMIx_Get_version")) answer.detail = version();
  return answer;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Host live_host() {
  Host host;
  if (const std::string root = topology::machine_root(); !root.empty()) host.root = root;
  ::utsname names{};
  if (::uname(&names) == 0) host.kernel = names.release;
  host.may_lock = may_lock();
  host.memlock = limit_of(RLIMIT_MEMLOCK);
  host.file_size = limit_of(RLIMIT_FSIZE);
  host.cpus = os::usable_cpus();
  if (const auto index = topology::parse_whole(environment("WEFT_IB_GID")))
    host.gid_index = static_cast<int>(*index);
  host.program_path = environment("PATH");
  host.try_open = try_open;
  host.room = room;
  host.try_memfd = try_memfd;
  host.library = ask_library;
  host.cuda = topology::ask_cuda_driver;
  host.qdiscs = ask_qdiscs;
  return host;
}

}  // namespace weft::doctor
