#include "topology/import/import.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/fail.hpp"
#include "base/os/fd.hpp"
#include "base/os/system_error.hpp"
#include "topology/import/kinds.hpp"
#include "topology/import/trouble.hpp"
#include "topology/import/xml.hpp"

namespace weft::topology {
namespace {

constexpr std::size_t kMostBytes = 32UL << 20;  // the largest known machines take about 5 MB
constexpr int kPatience = 10'000;               // ms to wait for the writer of a pipe

Model import_xml(std::string_view text, const std::string& name) {
  const XmlElement root = parse_xml(text, name);
  if (root.name == "topology") return read_hwloc(root, name);
  if (root.name == "system") return read_nccl(root, name);
  refuse_file(
      name, root.line,
      fmt::format("<{}> is neither hwloc's <topology> nor NCCL's <system>", excerpt(root.name)),
      "give a file of hwloc, NCCL or weft-topo --json");
}

[[noreturn]] void refuse_to_read(const std::string& path, int error) {
  throw_error(Code::system, "topology", fmt::format("{} can't be read: {}", path, os::words(error)),
              "check the path, and whether this user may read the file");
}

std::string read_all(const std::string& path) {
  os::Fd own;
  int fd = STDIN_FILENO;
  if (path != "-") {
    own = os::Fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!own) refuse_to_read(path, errno);
    fd = own.get();
    struct stat facts {};
    if (::fstat(fd, &facts) == 0 && S_ISDIR(facts.st_mode)) refuse_to_read(path, EISDIR);
  }
  std::string text;
  for (char buffer[1 << 16];;) {
    const ssize_t count = ::read(fd, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN && own) {  // the writer of a shell's <(command) may be slow
      pollfd writer{fd, POLLIN, 0};
      if (::poll(&writer, 1, kPatience) != 0) continue;
      refuse_to_read(path, ETIMEDOUT);
    }
    if (count < 0) refuse_to_read(path, errno);
    if (count == 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
    if (text.size() > kMostBytes)
      refuse_file(path, 0,
                  fmt::format("is larger than {} MiB, more than any machine's description",
                              kMostBytes >> 20));
  }
}

/// Limits the numbers of objects: selection takes time in proportion to products of some of them,
/// and a file must not cause hours of work.
void check_size(const Model& model, const std::string& name) {
  struct Limit {
    std::size_t count;
    std::size_t most;
    const char* what;
  };
  const std::array<Limit, 6> limits{{{model.gpus.size(), 512, "GPUs"},
                                     {model.nics.size(), 2048, "NICs"},
                                     {model.pci.size(), 65'536, "PCI devices"},
                                     {model.numa.size(), 1024, "NUMA nodes"},
                                     {model.packages.size(), 1024, "packages"},
                                     {model.distances.size(), 65'536, "distances"}}};
  for (const Limit& limit : limits)
    if (limit.count > limit.most)
      refuse_file(name, 0,
                  fmt::format("describes {} {}, more than the {} of any machine known", limit.count,
                              limit.what, limit.most));
}

}  // namespace

Model import_text(std::string_view text, const std::string& name) {
  if (text.size() > kMostBytes) refuse_file(name, 0, "is too large");
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) refuse_file(name, 1, "is empty");
  Model model = text[first] == '{' || text[first] == '[' ? read_weft_json(text, name)
                                                         : import_xml(text, name);
  model.file = name;
  check_size(model, name);
  finish(model);
  return model;
}

Model import_file(const std::string& path) {
  return import_text(read_all(path), path == "-" ? "standard input" : path);
}

}  // namespace weft::topology
