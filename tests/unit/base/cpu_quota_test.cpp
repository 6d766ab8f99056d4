// Quotas in file trees as kernels lay them out.
#include <gtest/gtest.h>

#include "base/os/cgroup.hpp"
#include "base/os/cpus.hpp"
#include "tests/unit/base/temp_folder.hpp"

namespace weft::os {
namespace {

using tests::TempFolder;

constexpr auto kUnified =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr auto kVersion1 =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:30 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";

TEST(CpuQuota, IsNoneWithoutControlGroups) {
  const TempFolder root;
  EXPECT_EQ(cpu_quota(root.path()), std::nullopt);
  EXPECT_TRUE(own_cgroups("cpu", root.path()).empty());
}

TEST(CpuQuota, IsTheLeastOfTheGroupAndItsParents) {
  const TempFolder root;
  root.write("proc/self/mountinfo", kUnified);
  root.write("proc/self/cgroup", "0::/job/step\n");
  root.write("sys/fs/cgroup/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/job/cpu.max", "150000 100000\n");
  root.write("sys/fs/cgroup/job/step/cpu.max", "400000 100000\n");
  EXPECT_EQ(cpu_quota(root.path()), 1.5);

  root.write("sys/fs/cgroup/job/step/cpu.max", "25000 50000\n");
  EXPECT_EQ(cpu_quota(root.path()), 0.5);
}

TEST(CpuQuota, IsNoneWhereEveryGroupSaysMax) {
  const TempFolder root;
  root.write("proc/self/mountinfo", kUnified);
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_quota(root.path()), std::nullopt);
}

TEST(CpuQuota, IsReadFromVersion1) {
  const TempFolder root;
  root.write("proc/self/mountinfo", kVersion1);
  root.write("proc/self/cgroup", "5:memory:/other\n4:cpu,cpuacct:/job\n1:name=systemd:/\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root.path()), 3.0);
}

TEST(CpuQuota, IsThatOfTheMountWhereTheGroupIsOutOfSight) {
  // A container: the mount shows the container's group as its root, the path is the host's.
  const TempFolder root;
  root.write("proc/self/mountinfo",
             "32 31 0:29 /docker/c1 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  for (const auto* const group : {"4:cpu:/docker/c1\n", "4:cpu:/\n", "4:cpu:/../c2\n"}) {
    root.write("proc/self/cgroup", group);
    EXPECT_EQ(cpu_quota(root.path()), 2.0) << group;
  }
}

TEST(OwnCgroups, RunFromTheGroupToWhatIsMounted) {
  const TempFolder root;
  root.write("proc/self/mountinfo", kVersion1);
  root.write("proc/self/cgroup", "5:memory:/a/b\n4:cpu,cpuacct:/\n");
  const auto top = root.path() / "sys/fs/cgroup/memory";
  const std::vector<std::filesystem::path> expected{top / "a/b", top / "a", top};
  EXPECT_EQ(own_cgroups("memory", root.path()), expected);
}

}  // namespace
}  // namespace weft::os
