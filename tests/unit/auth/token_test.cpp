// The settings of a job without a launcher, and the ones that are refused.
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>

#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/token/job_address.hpp"
#include "runtime/bootstrap/token/token_file.hpp"
#include "tests/support/errors.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "weft/error.hpp"

namespace weft::bootstrap {
namespace {

const std::string kToken(32, 'k');

std::string refusal(const std::function<void()>& of) {
  return weft::tests::refusal_of(Code::bad_config, [&] { of(); });
}

/// A token file that a test writes.
class TokenFile : public testing::Test {
 public:
  std::string write(const std::string& content, mode_t mode = 0600) {
    const std::string path = (folder.path() / "token").string();
    std::ofstream(path, std::ios::trunc) << content;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  std::string refusal_of(const std::string& content, mode_t mode = 0600) {
    const std::string path = write(content, mode);
    const std::string line = refusal([&] { (void)read_token(path); });
    EXPECT_EQ(line.find(kToken.substr(0, 8)), std::string::npos) << "the token is in the line";
    return line;
  }

  tests::TempFolder folder;
};

TEST_F(TokenFile, GivesTheSameKeyWhateverTheSpaceAroundIt) {
  const auto key = read_token(write(kToken));
  EXPECT_EQ(read_token(write("\n  " + kToken + " \r\n\n")), key);
  EXPECT_EQ(read_token(write(kToken, 0400)), key);
  EXPECT_NE(read_token(write(kToken + "x")), key);
}

TEST_F(TokenFile, HasTheKeyOfTheSameTokenInMemory) {
  EXPECT_EQ(given_token(kToken), read_token(write(kToken)));
  EXPECT_EQ(given_token(" " + kToken + "\n"), given_token(kToken));
  for (const std::string& wrong : {std::string("short"), std::string(5000, 'x')}) {
    const std::string line = refusal([&] { (void)given_token(wrong); });
    EXPECT_NE(line.find("the token given: a token of"), std::string::npos) << line;
    EXPECT_EQ(line.find(wrong), std::string::npos) << "the token is in the line";
  }
}

TEST_F(TokenFile, IsRefusedWhereOthersMayUseIt) {
  for (const mode_t mode : {0640U, 0604U, 0620U, 0644U, 0601U})
    EXPECT_NE(refusal_of(kToken, mode).find("others than its owner may use it"), std::string::npos)
        << std::oct << mode;
}

TEST_F(TokenFile, IsRefusedWhenItHoldsNoToken) {
  EXPECT_NE(refusal_of("").find("a token of 0 bytes"), std::string::npos);
  EXPECT_NE(refusal_of(" \n\t ").find("a token of 0 bytes"), std::string::npos);
  EXPECT_NE(refusal_of(std::string(31, 'k')).find("a token of 31 bytes"), std::string::npos);
  EXPECT_NE(refusal_of(std::string(5000, 'k')).find("more than 4096"), std::string::npos);
}

TEST_F(TokenFile, IsRefusedWhenItIsNoFileOfOnesOwn) {
  EXPECT_NE(refusal([&] {
              (void)read_token((folder.path() / "none").string());
            }).find("No such file or directory"),
            std::string::npos);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0700), 0);
  EXPECT_NE(refusal([&] { (void)read_token(folder.path().string()); }).find("no regular file"),
            std::string::npos);
  const std::string pipe = (folder.path() / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(refusal([&] { (void)read_token(pipe); }).find("no regular file"), std::string::npos);
  if (::geteuid() != 0) return;
  const std::string path = write(kToken);
  ASSERT_EQ(::chown(path.c_str(), 12345, 0), 0);
  EXPECT_NE(refusal([&] { (void)read_token(path); }).find("it belongs to user 12345"),
            std::string::npos);
}

TEST(JobAddress, TakesAddressesOfBothKindsAndNames) {
  EXPECT_EQ(parse_job_address("10.0.0.1:29400").text(), "10.0.0.1:29400");
  EXPECT_EQ(parse_job_address("[fd00::1]:1").text(), "[fd00::1]:1");
  EXPECT_TRUE(parse_job_address("[fd00::1]:1").is_numeric);
  const auto name = parse_job_address("rank0.example:65535");
  EXPECT_EQ(name.host, "rank0.example");
  EXPECT_EQ(name.port, 65535);
  EXPECT_FALSE(name.is_numeric);
}

TEST(JobAddress, IsRefusedWithTheReason) {
  const auto refused = [](const char* text) {
    return refusal([&] { (void)parse_job_address(text); });
  };
  for (const char* text : {"10.0.0.1", "", "[fd00::1]", "[fd00::1"})
    EXPECT_NE(refused(text).find("a port is missing"), std::string::npos) << text;
  for (const char* text : {"a:0", "a:65536", "a:", "a:12x", "a:-1", "[::1]:"})
    EXPECT_NE(refused(text).find("no number from 1 to 65535"), std::string::npos) << text;
  EXPECT_NE(refused("fd00::1:4711").find("in brackets"), std::string::npos);
  EXPECT_NE(refused("[rank0]:4711").find("no IPv6 address"), std::string::npos);
  EXPECT_NE(refused(":4711").find("the host is missing"), std::string::npos);
  for (const char* text : {"0.0.0.0:4711", "[::]:4711"})
    EXPECT_NE(refused(text).find("no peer can connect"), std::string::npos) << text;
}

TEST(JobAddress, IsWhereRankZeroListensIfItIsItsOwn) {
  const auto own = parse_job_address("127.0.0.9:4711");
  EXPECT_EQ(own_ips(own, resolve(own), "auto"), resolve(own).ips);
  const auto foreign = parse_job_address("203.0.113.1:4711");
  EXPECT_NE(refusal([&] {
              (void)own_ips(foreign, resolve(foreign), "auto");
            }).find("does not have this address"),
            std::string::npos);
  EXPECT_EQ(own_ips(foreign, resolve(foreign), "127.0.0.1"),
            resolve(parse_job_address("127.0.0.1:1")).ips);
}

TEST(TokenBootstrap, NamesWhatItWasNotTold) {
  const auto told = [](const Config& config) {
    return refusal([&] { (void)choose_bootstrap(config.with(Setting::bootstrap, "token")); });
  };
  EXPECT_NE(told(Config()).find("needs WEFT_RANK, WEFT_SIZE, WEFT_ADDR, WEFT_TOKEN_FILE"),
            std::string::npos);
  EXPECT_NE(told(Config().with(Setting::rank, "1").with(Setting::addr, "127.0.0.1:1"))
                .find("needs WEFT_SIZE, WEFT_TOKEN_FILE"),
            std::string::npos);
  EXPECT_NE(told(Config()
                     .with(Setting::rank, "4")
                     .with(Setting::size, "4")
                     .with(Setting::addr, "127.0.0.1:1")
                     .with(Setting::token_file, "/none"))
                .find("WEFT_RANK=4 with WEFT_SIZE=4"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::bootstrap
