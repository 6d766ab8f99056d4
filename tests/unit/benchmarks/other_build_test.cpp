#include "benchmarks/driver/other_build.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>

namespace weft::bench {
namespace {

namespace fs = std::filesystem;

/// A build folder whose weft-bench is a script.
class OtherBuild : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "weft-other-build-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    fs::create_directory(folder_ / "bin");
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path program() const { return folder_ / "bin" / "weft-bench"; }

  void write(const std::string& script) const {
    std::ofstream(program()) << "#!/bin/sh\n" << script;
    fs::permissions(program(), fs::perms::owner_all);
  }

  fs::path folder_;
};

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kHelp = "printf 'Benchmarks: a list\\n  latency     8 bytes\\n'\n";

TEST_F(OtherBuild, IsNamedByItsFolderItsBinariesFolderOrItsProgram) {
  write(kHelp);
  for (const fs::path& path : {folder_, folder_ / "bin", program()})
    EXPECT_EQ(weft_bench_of(path.string(), "latency"), program().string()) << path;
}

TEST_F(OtherBuild, IsRefusedWhereItIsMissing) {
  const std::string said = refusal([&] { weft_bench_of(folder_.string(), "latency"); });
  EXPECT_TRUE(said.starts_with("--against: " + folder_.string() + " is no weft-bench")) << said;
  EXPECT_EQ(said.find('\n'), std::string::npos);
}

TEST_F(OtherBuild, IsRefusedWithoutTheBenchmark) {
  write(kHelp);
  EXPECT_EQ(refusal([&] { weft_bench_of(folder_.string(), "late"); }),
            "--against: " + program().string() + " has no benchmark late");
}

TEST_F(OtherBuild, IsRefusedWhereItsProgramDoesNotStart) {
  write("echo 'libsomething.so.2: cannot open shared object file' >&2; exit 127\n");
  const std::string said = refusal([&] { weft_bench_of(folder_.string(), "latency"); });
  EXPECT_TRUE(said.ends_with("ended with 127: libsomething.so.2: cannot open shared object file"))
      << said;
}

TEST(OtherBuildsRows, AreThoseThatItPrints) {
  const Outcome outcome{0, to_line({{8, "touched", {{"weft", 0.25}}, {}}}) + "\n", ""};
  EXPECT_EQ(rows_of_other_build("bin/weft-bench", outcome).at(0).values.at("weft"), 0.25);
}

TEST(OtherBuildsRows, OfAnotherFormAreRefused) {
  const Outcome outcome{0, "{\"rows\": [{\"bytes\": 8}]}\n", ""};
  const std::string said = refusal([&] { rows_of_other_build("bin/weft-bench", outcome); });
  EXPECT_TRUE(said.starts_with("--against: bin/weft-bench prints its rows in another form"))
      << said;
}

TEST(OtherBuildsRows, OfAFailedRunAreItsReasonInOneLine) {
  const std::string banner = "-------\nmpirun: one process ended\n";
  const Outcome own{1, "", banner + "weft-bench: latency: no benchmark has that name\n" + banner};
  EXPECT_EQ(refusal([&] { rows_of_other_build("a/weft-bench", own); }),
            "--against: a run of a/weft-bench ended with 1: "
            "weft-bench: latency: no benchmark has that name");
  const Outcome parser{109, "", "The following argument was not expected: --ranks\nRun with\n"};
  EXPECT_EQ(refusal([&] { rows_of_other_build("a/weft-bench", parser); }),
            "--against: a run of a/weft-bench ended with 109: "
            "The following argument was not expected: --ranks");
}

}  // namespace
}  // namespace weft::bench
