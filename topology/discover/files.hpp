// The small files of /sys and /proc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/model/pci_address.hpp"

namespace weft::topology {

/// Reads files below a root. A file that is absent or refused gives nullopt or an empty value,
/// which callers treat as unknown.
class Files {
 public:
  explicit Files(std::string root) : root_(std::move(root)) {}

  /// The text without the line's end; at most a page.
  std::optional<std::string> read(const std::string& path) const;
  /// Decimal.
  std::optional<long> read_number(const std::string& path) const;
  /// Raw bytes, at most `most`.
  std::string read_bytes(const std::string& path, std::size_t most) const;
  /// Names, sorted.
  std::vector<std::string> list(const std::string& path) const;
  /// Where a symbolic link leads, as it is written.
  std::optional<std::string> link(const std::string& path) const;
  bool exists(const std::string& path) const;

 private:
  std::string root_;
};

/// The parts of a path between slashes.
std::vector<std::string> parts_of(const std::string& path);
/// The PCI function that a device of any kind sits on, by the link of its class: the last address
/// in "../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0".
std::optional<PciAddress> pci_in(const std::string& link);

}  // namespace weft::topology
