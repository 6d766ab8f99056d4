#include "topology/import/json_fields.hpp"

#include <cmath>

#include "topology/import/trouble.hpp"
#include "topology/parse/numbers.hpp"

namespace weft::topology {

JsonFields::JsonFields(const JsonValue& value, const std::string& file)
    : value_(value), file_(file) {
  if (value.type != JsonValue::Type::object)
    refuse_file(file, value.line, "here must be an object");
}

void JsonFields::refuse(const char* key, const std::string& what) const {
  const JsonValue* value = value_.find(key);
  refuse_file(file_, value == nullptr ? value_.line : value->line,
              fmt::format("\"{}\" {}", key, what));
}

const JsonValue* JsonFields::of_type(const char* key, JsonValue::Type type,
                                     const char* what) const {
  const JsonValue* value = value_.find(key);
  if (value != nullptr && value->type != type) refuse(key, what);
  return value;
}

std::string JsonFields::text(const char* key) const {
  const JsonValue* value = of_type(key, JsonValue::Type::text, "must be text");
  return value == nullptr ? std::string{} : value->text;
}

double JsonFields::number(const char* key, double most) const {
  const JsonValue* value = of_type(key, JsonValue::Type::number, "must be a number");
  if (value == nullptr) return 0;
  if (!std::isfinite(value->number) || value->number < 0 || value->number > most)
    refuse(key, fmt::format("must be from 0 to {:g}", most));
  return value->number;
}

int JsonFields::whole(const char* key, int otherwise, int least, int most) const {
  const JsonValue* value = of_type(key, JsonValue::Type::number, "must be a number");
  if (value == nullptr) return otherwise;
  if (!(value->number >= least && value->number <= most) ||
      std::floor(value->number) != value->number)
    refuse(key, fmt::format("must be a whole number from {} to {}", least, most));
  return static_cast<int>(value->number);
}

std::optional<bool> JsonFields::flag(const char* key) const {
  const JsonValue* value = of_type(key, JsonValue::Type::boolean, "must be true or false");
  return value == nullptr ? std::nullopt : std::optional(value->boolean);
}

std::uint32_t JsonFields::hex(const char* key, std::uint32_t most) const {
  const std::string own = text(key);
  if (own.empty()) return 0;
  const auto value = parse_hex(own);
  if (!value || *value > most) refuse(key, fmt::format("must be hexadecimal, at most {:#x}", most));
  return static_cast<std::uint32_t>(*value);
}

std::optional<PciAddress> JsonFields::address(const char* key) const {
  const std::string own = text(key);
  if (own.empty()) return std::nullopt;
  const auto address = PciAddress::parse(own);
  if (!address) refuse(key, fmt::format("is \"{}\", no PCI address", excerpt(own)));
  return address;
}

std::vector<int> JsonFields::cpus(const char* key) const {
  auto list = parse_cpu_list(text(key));
  if (!list) refuse(key, "must list processors, such as 0-17,36");
  return std::move(*list);
}

const std::vector<JsonValue>& JsonFields::items(const char* key) const {
  static const std::vector<JsonValue> none;
  const JsonValue* value = of_type(key, JsonValue::Type::array, "must be an array");
  return value == nullptr ? none : value->items;
}

}  // namespace weft::topology
