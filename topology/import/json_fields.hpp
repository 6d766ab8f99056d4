// Reads checked values from JSON objects; errors name line and key.
#pragma once

#include <optional>
#include <string>

#include "topology/import/json_value.hpp"
#include "topology/model/pci_address.hpp"

namespace weft::topology {

/// The members of one object. Throws Error(bad_argument) for a member of the wrong type or out of
/// range. A member that is absent or null has the default value.
class JsonFields {
 public:
  /// Throws if `value` is not an object.
  JsonFields(const JsonValue& value, const std::string& file);

  std::string text(const char* key) const;
  double number(const char* key, double most) const;  ///< 0 to `most`; absent: 0
  int whole(const char* key, int otherwise, int least, int most) const;
  std::optional<bool> flag(const char* key) const;
  std::uint32_t hex(const char* key, std::uint32_t most) const;  ///< "0x10de"; absent: 0
  std::optional<PciAddress> address(const char* key) const;
  /// "0-17,36-53"
  std::vector<int> cpus(const char* key) const;
  /// The items of an array; empty if the array is absent.
  const std::vector<JsonValue>& items(const char* key) const;
  const JsonValue* find(const char* key) const { return value_.find(key); }

  [[noreturn]] void refuse(const char* key, const std::string& what) const;

 private:
  const JsonValue* of_type(const char* key, JsonValue::Type type, const char* what) const;

  const JsonValue& value_;
  const std::string& file_;
};

}  // namespace weft::topology
