#include "benchmarks/driver/hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "benchmarks/driver/launch.hpp"

namespace weft::bench {
namespace {

/// The value of a variable that tests/hosts/hosts sets; empty outside of it.
std::string said(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr ? value : "";
}

int hosts() { return std::max(2, std::atoi(said("HOSTS").c_str())); }

/// The one word that a program prints.
std::string answer(const std::vector<std::string>& words) {
  constexpr std::chrono::seconds kLimit{10};
  std::istringstream output(launch(words, kLimit).output);
  std::string word;
  return output >> word ? word : "unknown";
}

}  // namespace

std::vector<std::string> flags_for_hosts(int ranks) {
  std::vector<std::string> words;
  std::istringstream flags(said("HOSTS_MPIRUN"));
  for (std::string word; flags >> word;) words.push_back(word);
  if (words.empty()) return words;
  const int count = hosts();
  std::string places;
  for (int i = 1; i <= count; ++i)
    places += fmt::format("{}host{}:{}", i == 1 ? "" : ",", i, (ranks + count - i) / count);
  words.insert(words.end(), {"--host", places});
  for (const char* variable :
       {"WEFT_FABRIC", "WEFT_CHECKSUM", "WEFT_ENCRYPT", "WEFT_RAILS", "WEFT_TCP_CONGESTION"})
    if (!said(variable).empty()) words.insert(words.end(), {"-x", variable});
  return words;
}

std::vector<std::string> on_second_host(std::vector<std::string> words) {
  if (!said("HOSTS_MPIRUN").empty()) words.insert(words.begin(), {"on", "host2"});
  return words;
}

std::string congestion_control() {
  const std::vector<std::string> ask{"cat", "/proc/sys/net/ipv4/tcp_congestion_control"};
  if (flags_for_hosts(2).empty()) return said("WEFT_FABRIC") == "tcp" ? answer(ask) : "";
  std::vector<std::string> found;
  std::string list;
  for (int i = 1; i <= hosts(); ++i) {
    std::vector<std::string> words{"on", fmt::format("host{}", i)};
    words.insert(words.end(), ask.begin(), ask.end());
    found.push_back(answer(words));
    list += fmt::format("{}host{} {}", i == 1 ? "" : ", ", i, found.back());
  }
  const bool all_alike = std::ranges::count(found, found.front()) == std::ssize(found);
  return all_alike ? found.front() : list;
}

std::string second_host_address() {
  return said("HOSTS_MPIRUN").empty() ? "127.0.0.1" : "10.78.1.2";
}

}  // namespace weft::bench
