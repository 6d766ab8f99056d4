// Builds Model::pci from a file, and rejects duplicate devices.
#pragma once

#include <map>
#include <string>

#include "topology/import/xml.hpp"
#include "topology/model/model.hpp"

namespace weft::topology {

class PciTree {
 public:
  PciTree(Model& model, std::string file) : model_(model), file_(std::move(file)) {}

  /// Adds `node`; returns its index. Throws Error(bad_argument) if another device has its address,
  /// or if the node is its own ancestor. Two switches with one address only cause a note, because
  /// vendors number virtual switches.
  int add(PciNode node, int line);
  /// The address in `attribute` of `element`; throws if it is not a PCI address.
  PciAddress address(const XmlElement& element, const char* attribute) const;
  std::string source(int line) const;

 private:
  Model& model_;
  std::string file_;
  std::map<PciAddress, std::pair<int, int>> seen_;  // index, line
};

}  // namespace weft::topology
