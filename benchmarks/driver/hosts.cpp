#include "benchmarks/driver/hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace weft::bench {
namespace {

/// The value of a variable that tests/hosts/hosts sets; empty outside of it.
std::string said(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr ? value : "";
}

}  // namespace

std::vector<std::string> flags_for_hosts(int ranks) {
  std::vector<std::string> words;
  std::istringstream flags(said("HOSTS_MPIRUN"));
  for (std::string word; flags >> word;) words.push_back(word);
  if (words.empty()) return words;
  const int hosts = std::max(2, std::atoi(said("HOSTS").c_str()));
  std::string places;
  for (int i = 1; i <= hosts; ++i)
    places += fmt::format("{}host{}:{}", i == 1 ? "" : ",", i, (ranks + hosts - i) / hosts);
  words.insert(words.end(), {"--host", places});
  for (const char* variable : {"WEFT_FABRIC", "WEFT_CHECKSUM", "WEFT_ENCRYPT", "WEFT_RAILS", "WEFT_TCP_CONGESTION"})
    if (!said(variable).empty()) words.insert(words.end(), {"-x", variable});
  return words;
}

std::vector<std::string> on_second_host(std::vector<std::string> words) {
  if (!said("HOSTS_MPIRUN").empty()) words.insert(words.begin(), {"on", "host2"});
  return words;
}

std::string second_host_address() {
  return said("HOSTS_MPIRUN").empty() ? "127.0.0.1" : "10.78.1.2";
}

}  // namespace weft::bench
