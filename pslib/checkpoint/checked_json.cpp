#include "pslib/checkpoint/checked_json.hpp"

#include <fmt/format.h>

#include <utility>

#include "pslib/checkpoint/durable_file.hpp"

namespace weft::pslib {
namespace {

constexpr int kDeepest = 8;  // checkpoint files need four levels

}  // namespace

CheckedJson::CheckedJson(std::filesystem::path path, std::uint64_t offset, std::string_view text)
    : path_(std::move(path)), offset_(offset) {
  const auto look = [this](int depth, Json::parse_event_t, Json&) {
    if (depth > kDeepest) refuse("it is nested too deeply");
    return true;
  };
  try {
    root_ = Json::parse(text, look);
  } catch (const Json::parse_error& error) {
    refuse_file(path_, offset_ + error.byte, "it is not valid JSON from here on");
  } catch (const Json::exception& error) {
    refuse(error.what());
  }
  if (!root_.is_object()) refuse("it is not a JSON object");
}

void CheckedJson::refuse(const std::string& why) const { refuse_file(path_, offset_, why); }

const CheckedJson::Json& CheckedJson::member(const Json& of, const char* name) const {
  if (of.is_object())
    if (const auto found = of.find(name); found != of.end()) return *found;
  refuse(fmt::format("it lacks \"{}\"", name));
}

const CheckedJson::Json& CheckedJson::list(const Json& of, const char* name) const {
  const Json& value = member(of, name);
  if (!value.is_array()) refuse(fmt::format("\"{}\" is not a list", name));
  return value;
}

std::string CheckedJson::text(const Json& of, const char* name) const {
  const Json& value = member(of, name);
  if (!value.is_string()) refuse(fmt::format("\"{}\" is not a string", name));
  return value.get<std::string>();
}

std::uint64_t CheckedJson::number(const Json& value) const {
  if (!value.is_number_unsigned()) refuse("a number in it is not a whole number of 0 or more");
  return value.get<std::uint64_t>();
}

std::uint64_t CheckedJson::number(const Json& of, const char* name) const {
  const Json& value = member(of, name);
  if (!value.is_number_unsigned()) refuse(fmt::format("\"{}\" is not a whole number", name));
  return value.get<std::uint64_t>();
}

float CheckedJson::real(const Json& of, const char* name) const {
  const Json& value = member(of, name);
  if (!value.is_number()) refuse(fmt::format("\"{}\" is not a number", name));
  return static_cast<float>(value.get<double>());
}

std::vector<std::uint64_t> CheckedJson::numbers(const Json& of, const char* name) const {
  std::vector<std::uint64_t> all;
  for (const Json& value : list(of, name)) all.push_back(number(value));
  return all;
}

std::string CheckedJson::dump() const {
  try {
    return root_.dump();
  } catch (const Json::exception& error) {
    refuse(error.what());
  }
}

}  // namespace weft::pslib
