// Parses XML into a small tree with line numbers. The only user of Expat.
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
  std::string text{};  ///< all character data directly inside the element

  /// The value of attribute `name`; nullptr if there is none.
  const std::string* attribute(std::string_view name) const;
};

/// Returns the root element. Ignores comments, processing instructions and a DOCTYPE, and never
/// opens anything that the document refers to. Throws Error(bad_argument), which names the line,
/// for text that is not well-formed, for entity declarations, and for deeper nesting or more
/// elements than any machine's description has.
XmlElement parse_xml(std::string_view text, const std::string& name);

}  // namespace weft::topology
