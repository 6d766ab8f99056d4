#include "benchmarks/experiments/fig7.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "benchmarks/harness/transfer.hpp"

namespace weft::bench {
namespace {

using TimeOf = std::function<std::optional<double>(const Row& zero_copy)>;

/// The time of another kind at the same size.
TimeOf of_kind(const std::vector<Row>& rows, std::string_view kind) {
  return [&rows, kind](const Row& row) -> std::optional<double> {
    for (const Row& other : rows)
      if (other.kind == kind && other.size == row.size) return other.weft_us;
    return std::nullopt;
  };
}

std::optional<double> of_grpc(const Row& row) {
  const auto found = row.peers.find("grpc");
  return found == row.peers.end() ? std::nullopt : std::optional(found->second.us);
}

/// "1.2 to 3.4", over the sizes that both were measured at.
std::string range_text(const std::vector<Row>& rows, std::string_view kind, const TimeOf& other) {
  std::vector<double> times;
  for (const Row& row : rows)
    if (row.kind == kind)
      if (const auto us = other(row)) times.push_back(*us / row.weft_us);
  if (times.empty()) return "not measured";
  const auto [least, most] = std::ranges::minmax(times);
  return fmt::format("{:.2f} to {:.2f}", least, most);
}

}  // namespace

std::string fig7_text(const std::vector<Row>& rows) {
  const auto line = [&](std::string_view name, const TimeOf& other, std::string_view paper) {
    return fmt::format("{} takes {} times as long as put, {} as view; the paper: {}\n", name,
                       range_text(rows, kByPut, other), range_text(rows, kByView, other), paper);
  };
  return line("gRPC", of_grpc, "1.7 to 61 (gRPC.TCP)") +
         line("RPC", of_kind(rows, kByRpc), "1.3 to 14 (gRPC.RDMA, which crashes above 1 GB)") +
         line("copying", of_kind(rows, kByCopy), "1.2 to 1.8") +
         "the paper: two servers, 100 Gb/s InfiniBand\n";
}

}  // namespace weft::bench
