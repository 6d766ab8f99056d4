// JSON as a small tree with line numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::topology {

struct JsonValue {
  enum class Type : std::uint8_t { null, boolean, number, text, array, object };
  Type type = Type::null;
  int line = 0;
  bool boolean = false;
  double number = 0;
  std::string text{};
  std::vector<JsonValue> items{};                            ///< of an array
  std::vector<std::pair<std::string, JsonValue>> members{};  ///< of an object, in order

  /// The member `key`; nullptr if it is absent or null.
  const JsonValue* find(std::string_view key) const;
};

/// Parses JSON. Throws Error(bad_argument), which names the line, for text that is not well-formed,
/// for a repeated key, and for deeper nesting or more values than any machine's description has.
JsonValue parse_json(std::string_view text, const std::string& name);

}  // namespace weft::topology
