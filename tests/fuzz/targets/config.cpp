// Fuzzes the environment: one entry per line.
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/log_levels.hpp"
#include "runtime/bootstrap/token/job_address.hpp"
#include "tests/fuzz/input.hpp"
#include "weft/error.hpp"

using namespace weft;
using weft::fuzz::Input;
using weft::fuzz::require;

namespace {

void read_environment(std::string_view text) {
  std::vector<std::string> entries;
  for (;;) {
    const auto end = text.find('\n');
    // An entry ends at a NUL, as in the process's own environment.
    entries.emplace_back(std::string(text.substr(0, end)).c_str());
    if (end == text.npos) break;
    text.remove_prefix(end + 1);
  }
  std::vector<const char*> environment;
  for (const std::string& entry : entries) environment.push_back(entry.c_str());
  environment.push_back(nullptr);
  try {
    const Config config = Config::read(environment.data());
    for (const SettingSpec& spec : setting_table())
      if (config.source(spec.setting) == "default")
        require(config.text(spec.setting) == spec.fallback);
  } catch (const Error& error) {
    require(error.code() == Code::bad_config && !error.detail().hint.empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const auto what = input.take<std::uint8_t>();
  const std::string text(input.text());
  switch (what % 4) {
    case 0:
      (void)parse_time(text);
      (void)parse_size(text);
      (void)parse_integer(text);
      (void)parse_log_levels(text);
      break;
    case 1:
      try {
        const auto address = bootstrap::parse_job_address(text);
        require(address.port != 0 && !address.host.empty());
      } catch (const Error& error) {
        require(error.code() == Code::bad_config);
      }
      break;
    default:
      read_environment(text);
  }
  return 0;
}
