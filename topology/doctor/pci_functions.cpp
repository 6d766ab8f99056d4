#include "topology/doctor/pci_functions.hpp"

#include <fmt/format.h>

#include <charconv>

#include "topology/doctor/file_tree.hpp"

namespace weft::doctor {
namespace fs = std::filesystem;
namespace {

std::uint32_t read_hex(const fs::path& file) {
  const auto line = read_line(file).value_or("");
  std::uint32_t number = 0;
  if (line.starts_with("0x"))
    std::from_chars(line.data() + 2, line.data() + line.size(), number, 16);
  return number;
}

/// Functions without a link say speed "Unknown" and width 0 or 255.
PciLink read_link(const fs::path& dir, const std::string& which) {
  PciLink link;
  link.speed = read_number(dir / (which + "_link_speed")).value_or(0);
  const double width = read_number(dir / (which + "_link_width")).value_or(0);
  link.width = width >= 1 && width <= 32 ? static_cast<int>(width) : 0;
  return link;
}

}  // namespace

double PciLink::gbps() const noexcept {
  // Up to 5 GT/s, 8 of 10 bits are data; up to 32, 128 of 130; above, 242 of 256 bytes.
  const double share = speed <= 5 ? 0.8 : speed <= 32 ? 128.0 / 130 : 242.0 / 256;
  return speed * width * share;
}

std::string PciLink::text() const { return fmt::format("x{} at {:g} GT/s", width, speed); }

bool PciFunction::is_gpu() const noexcept {
  const std::uint32_t base = kind >> 8;
  // 0x1200 is a processing accelerator: AMD's compute GPUs.
  return ((base == 0x0300 || base == 0x0302) && (vendor == 0x10de || vendor == 0x1002)) ||
         (base == 0x1200 && vendor == 0x1002);
}

std::optional<PciFunction> read_pci_function(const fs::path& dir) {
  if (!is_there(dir / "class")) return std::nullopt;
  PciFunction function;
  function.address = dir.filename().string();
  function.dir = dir;
  function.kind = read_hex(dir / "class");
  function.vendor = read_hex(dir / "vendor");
  function.now = read_link(dir, "current");
  function.most = read_link(dir, "max");
  return function;
}

std::vector<PciFunction> pci_functions(const fs::path& root) {
  std::vector<PciFunction> functions;
  const auto folder = below(root, "/sys/bus/pci/devices");
  for (const auto& address : list_folder(folder)) {
    std::error_code error;
    const auto dir = fs::canonical(folder / address, error);
    if (error) continue;
    if (auto function = read_pci_function(dir)) functions.push_back(std::move(*function));
  }
  return functions;
}

std::vector<PciFunction> bridges_above(const PciFunction& function) {
  std::vector<PciFunction> bridges;
  for (auto dir = function.dir.parent_path(); dir.has_relative_path(); dir = dir.parent_path()) {
    auto bridge = read_pci_function(dir);
    if (!bridge) break;
    bridges.push_back(std::move(*bridge));
  }
  return bridges;
}

}  // namespace weft::doctor
