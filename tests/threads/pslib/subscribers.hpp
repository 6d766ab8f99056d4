// Common parts of the subscribers' tests: an address file, a publisher, and values that identify
// their version.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/ranks.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "weft/publication.hpp"

namespace weft::tests {

/// A token file, and the file that tells subscribers the publisher's address: on this host only.
class SubscriberAddressFile {
 public:
  SubscriberAddressFile() {
    ::setenv("WEFT_IFACE", "127.0.0.1", 1);
    write_token("token", std::string(32, 'k'));
  }
  ~SubscriberAddressFile() { ::unsetenv("WEFT_IFACE"); }
  SubscriberAddressFile(const SubscriberAddressFile&) = delete;
  SubscriberAddressFile& operator=(const SubscriberAddressFile&) = delete;

  std::string write_token(const std::string& name, const std::string& token) const {
    const auto path = folder_.path() / name;
    std::ofstream(path) << token;
    std::filesystem::permissions(
        path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    return path.string();
  }
  std::string address() const { return (folder_.path() / "address").string(); }
  std::string token() const { return (folder_.path() / "token").string(); }
  pslib::PublisherOptions publisher() const {
    return {.address = address(), .token_file = token(), .most_subscribers = 8};
  }
  pslib::ReaderOptions reader() const { return {.address = address(), .token_file = token()}; }

 private:
  TempFolder folder_;
};

/// Tensors of one publication: a table of rows and a vector, of which a step changes a part.
class Weights {
 public:
  static constexpr std::int64_t kRows = 512;
  static constexpr std::int64_t kColumns = 24;
  static constexpr std::int64_t kVector = 1000;

  static std::vector<pslib::PublishedTensor> specs() {
    return {{.name = "table", .dtype = DType::f32, .shape = {kRows, kColumns}},
            {.name = "vector", .dtype = DType::f32, .shape = {kVector}}};
  }

  std::vector<float> table = std::vector<float>(kRows * kColumns);
  std::vector<float> vector = std::vector<float>(kVector);

  std::vector<Tensor> tensors() {
    return {Tensor::wrap(table.data(), DType::f32, {kRows, kColumns}),
            Tensor::wrap(vector.data(), DType::f32, {kVector})};
  }
  /// Sets every element to `value`.
  void fill(float value) {
    table.assign(table.size(), value);
    vector.assign(vector.size(), value);
  }
};

/// The value that all tensors of a reader's version hold; nullopt if they hold several values.
inline std::optional<float> only_value(const pslib::Reader& reader) {
  std::optional<float> value;
  for (const auto& spec : reader.specs())
    for (const float element : reader.tensor(spec.name).as<float>()) {
      if (value && *value != element) return std::nullopt;
      value = element;
    }
  return value;
}

}  // namespace weft::tests
