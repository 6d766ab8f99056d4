// Grows Model::pci from a file, and sees to it that no device comes twice.
#pragma once

#include <map>
#include <string>

#include "topology/import/xml.hpp"
#include "topology/model/model.hpp"

namespace weft::topology {

class PciTree {
 public:
  PciTree(Model& model, std::string file) : model_(model), file_(std::move(file)) {}

  /// The new node's index. Throws Error(bad_argument) for an address that a device has already, or
  /// that is above itself. Two switches of one address are noted: vendors number imagined ones.
  int add(PciNode node, int line);
  /// The address in `attribute` of `element`; throws where it is none.
  PciAddress address(const XmlElement& element, const char* attribute) const;
  std::string source(int line) const;

 private:
  Model& model_;
  std::string file_;
  std::map<PciAddress, std::pair<int, int>> seen_;  // index, line
};

}  // namespace weft::topology
