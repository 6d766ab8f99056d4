// Parsing of JSON from files that may be damaged or hostile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace weft::pslib {

/// A checkpoint file's JSON with limited nesting and checked numbers. `offset` is the JSON's
/// position in the file. Throws Error(mismatch) with path and byte offset on any defect.
class CheckedJson {
 public:
  using Json = nlohmann::json;

  CheckedJson(std::filesystem::path path, std::uint64_t offset, std::string_view text);

  const Json& root() const noexcept { return root_; }
  Json& root() noexcept { return root_; }

  const Json& member(const Json& of, const char* name) const;
  const Json& list(const Json& of, const char* name) const;
  std::string text(const Json& of, const char* name) const;
  std::uint64_t number(const Json& of, const char* name) const;
  std::uint64_t number(const Json& value) const;
  float real(const Json& of, const char* name) const;
  std::vector<std::uint64_t> numbers(const Json& of, const char* name) const;
  /// The JSON as it was written: keys sorted, no spaces.
  std::string dump() const;

  [[noreturn]] void refuse(const std::string& why) const;

 private:
  std::filesystem::path path_;
  std::uint64_t offset_;
  Json root_;
};

}  // namespace weft::pslib
