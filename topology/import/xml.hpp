// XML as a small tree with line numbers. The one place that knows Expat.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::topology {

struct XmlElement {
  std::string name{};
  int line = 0;
  std::vector<std::pair<std::string, std::string>> attributes{};
  std::vector<XmlElement> children{};
  std::string text{};  ///< all character data directly inside

  /// nullptr: there is none of that name.
  const std::string* attribute(std::string_view name) const;
};

/// The root element. Comments, processing instructions and a DOCTYPE are passed over; nothing that
/// a document refers to is ever opened. Throws Error(bad_argument) with the line for what is not
/// well-formed, for declarations of entities, and for more nesting or elements than any machine
/// has.
XmlElement parse_xml(std::string_view text, const std::string& name);

}  // namespace weft::topology
