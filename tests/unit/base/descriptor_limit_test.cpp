#include "base/os/descriptor_limit.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>

#include "base/os/fd.hpp"
#include "base/os/system_error.hpp"
#include "weft/error.hpp"

namespace weft::os {
namespace {

/// A soft limit of open files while it lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t limit) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = limit;
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST(DescriptorLimit, CountsFreeDescriptorsBelowTheLimit) {
  const FewDescriptors few(64);
  const std::size_t before = free_descriptors(1000);
  const Fd one(::dup(0));
  ASSERT_TRUE(one);
  EXPECT_EQ(free_descriptors(1000), before - 1);
  EXPECT_EQ(free_descriptors(3), 3U);
}

TEST(DescriptorLimit, CountsNoneWhereNoneIsLeft) {
  const FewDescriptors few(0);
  EXPECT_EQ(free_descriptors(10), 0U);
}

TEST(DescriptorLimit, RemembersTheLastShortage) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(lacked_descriptors(begin));
  note_descriptor_shortage();
  EXPECT_TRUE(lacked_descriptors(begin));
  EXPECT_FALSE(lacked_descriptors(std::chrono::steady_clock::now() + std::chrono::seconds(1)));
}

TEST(SystemError, OfUsedUpDescriptorsNamesTheLimit) {
  try {
    throw_system_error("join", "eventfd", EMFILE);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("ulimit -n"), std::string::npos) << error.what();
  }
  EXPECT_NE(hint_for(ENFILE).find("file-max"), std::string::npos);
  EXPECT_NE(hint_for(EADDRINUSE).find("ip_local_port_range"), std::string::npos);
  EXPECT_EQ(hint_for(EBADF), "");
}

}  // namespace
}  // namespace weft::os
