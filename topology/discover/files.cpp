#include "topology/discover/files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "base/os/fd.hpp"
#include "base/os/file_names.hpp"
#include "topology/parse/numbers.hpp"

namespace weft::topology {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

std::string Files::read_bytes(const std::string& path, std::size_t most) const {
  std::string bytes;
  const os::Fd fd(::open((root_ + path).c_str(), O_RDONLY | O_CLOEXEC));
  while (fd && bytes.size() < most) {
    char buffer[kPage];
    const ssize_t count = ::read(fd.get(), buffer, std::min(sizeof buffer, most - bytes.size()));
    if (count <= 0) break;
    bytes.append(buffer, static_cast<std::size_t>(count));
  }
  return bytes;
}

std::optional<std::string> Files::read(const std::string& path) const {
  if (!exists(path)) return std::nullopt;
  std::string text = read_bytes(path, kPage);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ' || text.back() == '\0'))
    text.pop_back();
  return text;
}

std::optional<long> Files::read_number(const std::string& path) const {
  const auto text = read(path);
  return text ? parse_whole(*text) : std::nullopt;
}

std::vector<std::string> Files::list(const std::string& path) const {
  std::vector<std::string> names = os::file_names(root_ + path);
  std::erase_if(names, [](const std::string& name) { return name.front() == '.'; });
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::string> Files::link(const std::string& path) const {
  char buffer[PATH_MAX];
  const ssize_t length = ::readlink((root_ + path).c_str(), buffer, sizeof buffer);
  if (length < 0) return std::nullopt;
  return std::string(buffer, static_cast<std::size_t>(length));
}

bool Files::exists(const std::string& path) const {
  return ::access((root_ + path).c_str(), F_OK) == 0;
}

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (std::size_t at = path.find_first_not_of('/'); at != std::string::npos;) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    parts.push_back(path.substr(at, end - at));
    at = path.find_first_not_of('/', end);
  }
  return parts;
}

std::optional<PciAddress> pci_in(const std::string& link) {
  std::optional<PciAddress> found;
  for (const std::string& part : parts_of(link))
    if (const auto address = PciAddress::parse(part)) found = address;
  return found;
}

}  // namespace weft::topology
