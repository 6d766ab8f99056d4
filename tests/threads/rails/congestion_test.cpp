// Ranks tell of the congestion control of their connections.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/errors.hpp"
#include "tests/support/ranks.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::tests {
namespace {

TEST(CongestionOfAJob, ThatAHostRefusesIsToldByItsFirstRankAlone) {
  const TempFolder folder;
  run_on(3,
         settings()
             .with(Setting::fabric, "tcp")
             .with(Setting::tcp_congestion, "nosuch")
             .with(Setting::log, "warn")
             .with(Setting::log_file, (folder.path() / "%r").string()),
         [](World&) {});
  for (const char* const rank : {"0", "1", "2"}) {
    std::ostringstream log;
    log << std::ifstream(folder.path() / rank).rdbuf();
    const std::string words = "WEFT_TCP_CONGESTION=\"nosuch\"";
    const std::size_t first = log.str().find(words);
    EXPECT_EQ(first != std::string::npos, std::string(rank) == "0") << rank << ": " << log.str();
    if (first != std::string::npos) {
      EXPECT_EQ(log.str().find(words, first + 1), std::string::npos) << log.str();
    }
  }
}

}  // namespace
}  // namespace weft::tests
