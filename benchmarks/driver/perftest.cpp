#include "benchmarks/driver/perftest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "base/config.hpp"
#include "base/log.hpp"
#include "benchmarks/driver/launch.hpp"
#include "p2p/transport/verbs/api/load.hpp"
#include "p2p/transport/verbs/device/device.hpp"

namespace weft::bench {
namespace {

using namespace p2p::verbs;

constexpr std::chrono::seconds kLimit{120};
constexpr int kTries = 40;
constexpr std::size_t kBytes = 16u << 20;  ///< of one run

struct Port {
  std::string device;
  std::string number;
  std::uint32_t gid_index = 0;
  std::string address;  ///< of the host, by that port
};

Port port_of_weft() {
  std::string why;
  const auto verbs = load_verbs(why);
  if (!verbs) throw std::runtime_error("no RDMA: " + why);
  const Config config = Config::read().with(Setting::log, "off");
  Log log(config, "bench", 0);
  const Device device(verbs, VerbsOptions::read(config), log);
  const std::string& name = device.name();
  const auto colon = name.rfind(':');
  Port port;
  port.device = name.substr(0, colon);
  port.number = name.substr(colon + 1);
  const auto& gid = device.address().gid;
  for (std::uint32_t i = 0; i < 256; ++i) {
    ibv_gid_entry entry{};
    if (verbs->query_gid(device.context(), static_cast<std::uint8_t>(std::stoi(port.number)), i,
                         &entry) != 0)
      continue;
    if (std::memcmp(entry.gid.raw, gid.data(), gid.size()) == 0 &&
        entry.gid_type == IBV_GID_TYPE_ROCE_V2)
      port.gid_index = i;
  }
  port.address = fmt::format("{}.{}.{}.{}", static_cast<int>(gid[12]), static_cast<int>(gid[13]),
                             static_cast<int>(gid[14]), static_cast<int>(gid[15]));
  return port;
}

/// The numbers of the last line that begins with `size`.
std::vector<double> figures_in(const std::string& output, std::size_t size) {
  std::vector<double> figures;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<double> numbers;
    for (double number = 0; words >> number;) numbers.push_back(number);
    if (numbers.size() >= 4 && numbers[0] == static_cast<double>(size)) figures = numbers;
  }
  if (figures.empty()) throw std::runtime_error("perftest printed no figures:\n" + output);
  return figures;
}

std::vector<double> run(const Port& port, const std::string& tool, std::size_t size,
                        std::size_t iterations) {
  const std::string tcp_port = std::to_string(20000 + ::getpid() % 20000);
  const auto words = [&](const char* processor) {
    return std::vector<std::string>{"taskset",
                                    "-c",
                                    processor,
                                    tool,
                                    "-F",
                                    "-d",
                                    port.device,
                                    "-i",
                                    port.number,
                                    "-x",
                                    std::to_string(port.gid_index),
                                    "-s",
                                    std::to_string(size),
                                    "-n",
                                    std::to_string(iterations),
                                    "-p",
                                    tcp_port};
  };
  std::string server_said;
  std::thread server([&] {
    try {
      const Outcome outcome = launch(words("0"), kLimit);
      if (outcome.exit_code != 0) server_said = outcome.errors;
    } catch (const std::exception& error) {
      server_said = error.what();
    }
  });
  auto client = words("1");
  client.push_back(port.address);
  Outcome outcome;
  // The client gives up at once if the server does not listen yet, so try again.
  for (int i = 0; i < kTries; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    outcome = launch(client, kLimit);
    if (outcome.exit_code == 0) break;
  }
  server.join();
  if (outcome.exit_code != 0)
    throw std::runtime_error(fmt::format("`{}` ended with {}:\n{}{}", fmt::join(client, " "),
                                         outcome.exit_code, outcome.errors, server_said));
  return figures_in(outcome.output, size);
}

}  // namespace

std::optional<std::string> perftest_missing() {
  for (const char* tool : {"ib_write_bw", "ib_read_bw", "ib_write_lat", "taskset"})
    if (!find_program({tool})) return fmt::format("{} is not on PATH (package perftest)", tool);
  return std::nullopt;
}

std::vector<RunRow> run_perftest(const RunOptions& options) {
  const Port port = port_of_weft();
  std::vector<RunRow> rows;
  const auto row = [&](std::size_t size, const char* kind, double us) {
    rows.push_back({.size = size, .kind = kind, .values = {{"sendrecv", us}}});
  };
  for (const std::size_t size : options.sizes) {
    if (size == sizeof(std::int64_t)) {
      // bytes, iterations, shortest, longest, typical, average, ...
      row(size, "latency", run(port, "ib_write_lat", size, 2000).at(4));
      continue;
    }
    const std::size_t iterations = std::max<std::size_t>(kBytes / size, 5);
    const auto us = [&](double mib_per_second) {
      return static_cast<double>(size) / (mib_per_second * (1 << 20)) * 1e6;
    };
    // bytes, iterations, peak, average
    row(size, "put", us(run(port, "ib_write_bw", size, iterations).at(3)));
    row(size, "get", us(run(port, "ib_read_bw", size, iterations).at(3)));
  }
  return rows;
}

}  // namespace weft::bench
