// A table with compression, and a worker's end of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "pslib/compression/compressor.hpp"
#include "pslib/table/description.hpp"
#include "tests/unit/pslib/reference.hpp"

namespace weft::tests::compression {

using namespace pslib;

inline Roles alone() {
  Roles roles;
  roles.workers = roles.servers = {0};
  roles.server_hosts = {"here"};
  roles.split_bytes = 1 << 20;
  return roles;
}

inline TableOptions options_of(const Compression& compression, DType wire = DType::f32) {
  TableOptions options;
  options.compression = compression;
  options.wire = wire;
  return options;
}

inline Description table_of(std::vector<TensorSpec> specs, const TableOptions& options) {
  return {alone(), "ps", "model", std::move(specs), options};
}

/// The gradients and pushes of one worker for a table.
class Sender {
 public:
  explicit Sender(const Description& table)
      : table_(table),
        memory_(table.pushes.bytes_before()),
        push_(table.pushes.bytes()),
        compressor_(table.pushes, table.specs, table.table) {}

  Status send(const std::vector<Floats>& gradients) {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      std::byte* const to =
          memory_.data() + static_cast<std::size_t>(table_.layout.offset(i)) * width();
      if (table_.options.wire == DType::f32)
        std::memcpy(to, gradients[i].data(), gradients[i].size() * sizeof(float));
      else
        for (std::size_t e = 0; e < gradients[i].size(); ++e) {
          std::uint32_t bits = 0;
          std::memcpy(&bits, &gradients[i][e], sizeof bits);
          const auto upper = static_cast<std::uint16_t>(bits >> 16);  // bf16
          std::memcpy(to + e * 2, &upper, 2);
        }
    }
    const Tensor flat =
        Tensor::wrap(memory_.data(), table_.options.wire, Shape{table_.layout.elements()});
    return compressor_.compress(flat, push_.data());
  }
  Floats read(std::size_t tensor, std::size_t first, std::size_t count) const {
    Floats values(count, std::numeric_limits<float>::quiet_NaN());
    table_.pushes.read(values.data(), push_.data(), tensor, static_cast<std::int64_t>(first),
                       count);
    return values;
  }
  Floats read(std::size_t tensor) const {
    return read(tensor, 0, static_cast<std::size_t>(table_.specs[tensor].shape.elements()));
  }
  const CompressionStatistics& statistics() const { return compressor_.statistics(); }
  std::vector<std::byte>& bytes() { return push_; }

 private:
  std::size_t width() const { return size_of(table_.options.wire); }

  const Description& table_;
  std::vector<std::byte> memory_;
  std::vector<std::byte> push_;
  Compressor compressor_;
};

inline std::uint64_t first_seed() {
  const char* const given = std::getenv("WEFT_TEST_SEED");
  return given != nullptr ? std::stoull(given) : std::random_device{}();
}

}  // namespace weft::tests::compression
