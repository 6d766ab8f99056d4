#include "base/os/host_identity.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>

#include "base/os/system_error.hpp"

namespace weft::os {
namespace {

using Halves = std::array<std::uint64_t, 2>;

constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";

/// The kernel's boot identity: 128 random bits drawn at boot, as a UUID.
std::string boot_id() {
  std::ifstream file(kBootId);
  std::string text;
  if (!(file >> text)) throw_system_error("host_identity", kBootId);
  return text;
}

Halves in_halves(std::string text) {
  std::erase(text, '-');
  if (text.size() != 32 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw_system_error("host_identity", std::string(kBootId) + " holds no UUID", EINVAL);
  return {std::stoull(text.substr(0, 16), nullptr, 16), std::stoull(text.substr(16), nullptr, 16)};
}

std::uint64_t inode(const char* path) {
  struct stat status {};
  if (::stat(path, &status) != 0) throw_system_error("stat", path);
  return status.st_ino;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) throw_system_error("gethostname", "");
  return name.data();
}

}  // namespace

HostIdentity host_identity() {
  // Each half has one namespace's number, so different namespaces under one boot never give equal
  // identities.
  HostIdentity identity;
  identity.boot = boot_id();
  Halves halves = in_halves(identity.boot);
  halves[0] ^= inode("/proc/self/ns/net");
  halves[1] ^= inode("/proc/self/ns/pid");
  identity.name = host_name();
  std::memcpy(identity.id.data(), halves.data(), sizeof halves);
  return identity;
}

}  // namespace weft::os
