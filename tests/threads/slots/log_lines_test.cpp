// One event makes one line in the log of a rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/ranks.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::tests {
namespace {

/// The lines of all ranks' logs in a folder that have `word`.
std::string lines_with(const std::string& word, const TempFolder& folder, const std::string& name) {
  std::string lines;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    if (!contains(file.path().filename().string(), name)) continue;
    std::ifstream in(file.path());
    for (std::string line; std::getline(in, line);)
      if (contains(line, word)) lines += line + '\n';
  }
  return lines;
}

TEST(LogLines, AWarningAboutSettingsComesOnceAJob) {
  const TempFolder folder;
  const std::string log = "WEFT_LOG_FILE=" + (folder.path() / "log.%r").string();
  const std::array<const char*, 3> environment{"WEFT_TIMOUT=1s", log.c_str(), nullptr};
  run_on(3, Config::read(environment.data()).with(Setting::timeout, "20s"), [](World&) {});
  const std::string lines = lines_with("WEFT_TIMOUT", folder, "log");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1) << lines;
  EXPECT_TRUE(contains(lines, "the nearest is WEFT_TIMEOUT")) << lines;
}

TEST(LogLines, ARankThatOthersGiveUpIsToldOnce) {
  const TempFolder folder;
  Meeting meeting(2);
  const Config config = settings()
                            .with(Setting::fabric, "tcp")
                            .with(Setting::log_file, (folder.path() / "log.%r").string());
  run_on(2, config, [&](World& world) {
    meeting.wait();  // a rank that still joins would be refused
    if (world.rank() == 0) world.declare_dead(1, "as the test says");
    if (world.rank() == 1) {
      EXPECT_TRUE(soon([&] { return !world.alive(std::array{0}).ok(); }));
    }
    meeting.wait();
  });
  const std::string lines = lines_with("rank 0", folder, "log.1");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1) << lines;
  EXPECT_TRUE(contains(lines, "as the test says") || contains(lines, "declared dead")) << lines;
}

}  // namespace
}  // namespace weft::tests
