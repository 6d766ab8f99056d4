#include "benchmarks/driver/iperf3.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "benchmarks/driver/hosts.hpp"
#include "benchmarks/driver/launch.hpp"

namespace weft::bench {
namespace {

constexpr std::chrono::seconds kLimit{30};
constexpr int kTries = 20;
constexpr std::size_t kMostBlock = 1u << 20;  ///< that iperf3 writes at once

/// `zerocopy`: sends by sendfile(), from a file that lies in memory.
double bits_per_second(std::size_t block, bool zerocopy) {
  const std::string port = "5299";
  std::string server_said;
  std::thread server([&] {
    try {
      const Outcome outcome = launch(on_second_host({"iperf3", "-s", "-1", "-p", port}), kLimit);
      if (outcome.exit_code != 0) server_said = outcome.errors + outcome.output;
    } catch (const std::exception& error) {
      server_said = error.what();
    }
  });
  std::vector<std::string> client{"iperf3", "-c", second_host_address(), "-p", port, "-t",
                                  "1",      "-l", std::to_string(block), "-J"};
  if (zerocopy) client.emplace_back("-Z");
  Outcome outcome;
  // The client gives up at once if the server does not listen yet, so try again.
  for (int i = 0; i < kTries; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    outcome = launch(client, kLimit);
    if (outcome.exit_code == 0) break;
  }
  server.join();
  if (outcome.exit_code != 0)
    throw std::runtime_error(fmt::format("`{}` ended with {}: {}{}", fmt::join(client, " "),
                                         outcome.exit_code, outcome.output, server_said));
  return nlohmann::json::parse(outcome.output)
      .at("end")
      .at("sum_received")
      .at("bits_per_second")
      .get<double>();
}

}  // namespace

std::optional<std::string> iperf3_missing() {
  if (find_program({"iperf3"})) return std::nullopt;
  return "iperf3 is not on PATH (package iperf3)";
}

std::vector<RunRow> run_iperf3(const RunOptions& options) {
  std::vector<RunRow> rows;
  for (const std::size_t size : options.sizes) {
    if (size == sizeof(std::int64_t)) continue;
    const auto time = [&](bool zerocopy) {
      return static_cast<double>(size) * 8e6 /
             bits_per_second(std::min(size, kMostBlock), zerocopy);
    };
    rows.push_back({.size = size,
                    .kind = "put",
                    .values = {{"sendrecv", time(false)}, {"zerocopy", time(true)}}});
  }
  return rows;
}

}  // namespace weft::bench
