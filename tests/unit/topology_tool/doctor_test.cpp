#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/topology_tool/fake_host.hpp"
#include "tests/unit/topology_tool/planted_fault.hpp"
#include "topology/doctor/checks.hpp"
#include "topology/doctor/report.hpp"
#include "topology/render/labels.hpp"

namespace weft::doctor {
namespace {

using tests::expect_found;
using tests::FakeHost;
using tests::Fault;
using tests::worst;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
const std::string kPort = "/sys/class/infiniband/mlx5_0/ports/1/";
const std::string kHugePages = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

void no_gpu(FakeHost& fake) {
  fake.write_pci(FakeHost::kGpu, "class", "0x030000\n");
  fake.write_pci(FakeHost::kGpu, "vendor", "0x1234\n");
}

void iommu_group(FakeHost& fake, const char* device, const std::string& type) {
  fake.write_pci(device, "iommu_group/type", type + "\n");
}

const std::vector<Fault> kFaults{
    {"MemlockSmall", "memlock", Verdict::fail, "8 MiB",
     [](FakeHost& f) {
       f.host.memlock = {8 * kMiB, 8 * kMiB};
     }},
    {"MemlockLimited", "memlock", Verdict::warn, "1 GiB",
     [](FakeHost& f) {
       f.host.memlock = {1024 * kMiB, Limit::kNone};
     }},
    {"MemlockWithoutRdma", "memlock", Verdict::not_applicable, "no RDMA device",
     [](FakeHost& f) {
       f.remove_rdma();
       f.host.memlock = {8 * kMiB, 8 * kMiB};
     }},
    {"MemlockExempt", "memlock", Verdict::ok, "CAP_IPC_LOCK",
     [](FakeHost& f) {
       f.host.memlock = {8 * kMiB, 8 * kMiB};
       f.host.may_lock = true;
     }},

    {"NicIsEfa", "rdma-driver", Verdict::warn,
     "EFA has no RC queue pairs: a job reaches other hosts",
     [](FakeHost& f) {
       f.write_pci(FakeHost::kNic, "vendor", "0x1d0f\n");
       f.write_pci(FakeHost::kNic, "device", "0xefa3\n");
     }},
    {"NicIsSlingshot", "rdma-driver", Verdict::warn, "Slingshot has no verbs",
     [](FakeHost& f) {
       f.remove_rdma();
       f.write_pci(FakeHost::kNic, "vendor", "0x17db\n");
     }},

    {"MemfdRefused", "memfd", Verdict::fail, "memfd_create",
     [](FakeHost& f) { f.host.try_memfd = [] { return EPERM; }; }},
    {"FileSizeSmall", "memfd", Verdict::fail, "RLIMIT_FSIZE",
     [](FakeHost& f) { f.host.file_size.soft = kMiB; }},
    {"FileSizeLimited", "memfd", Verdict::warn, "RLIMIT_FSIZE",
     [](FakeHost& f) { f.host.file_size.soft = 1024 * kMiB; }},

    {"GroupFull", "memory", Verdict::fail, "control group",
     [](FakeHost& f) {
       f.write("/proc/self/cgroup", "0::/job\n");
       f.write("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
       f.write("/sys/fs/cgroup/job/memory.max", "268435456\n");
       f.write("/sys/fs/cgroup/job/memory.current", "266435456\n");
     }},
    {"MemoryShort", "memory", Verdict::warn, "available",
     [](FakeHost& f) { f.write("/proc/meminfo", "MemTotal: 99999 kB\nMemAvailable: 12000 kB\n"); }},
    {"MemoryUnknown", "memory", Verdict::not_applicable, "can't be read",
     [](FakeHost& f) { f.remove("/proc/meminfo"); }},

    {"ShmMissing", "shm", Verdict::fail, "no /dev/shm",
     [](FakeHost& f) { f.host.room = [](const auto&) { return std::nullopt; }; }},
    {"ShmFull", "shm", Verdict::fail, "full",
     [](FakeHost& f) { f.host.room = [](const auto&) {
                         return Room{64 * kMiB, 0};
                       }; }},
    {"ShmOfAContainer", "shm", Verdict::warn, "64 MiB",
     [](FakeHost& f) { f.host.room = [](const auto&) {
                         return Room{64 * kMiB, 64 * kMiB};
                       }; }},

    {"HugePagesDenied", "huge-pages", Verdict::fail, "deny",
     [](FakeHost& f) { f.write(kHugePages, "always advise never [deny] force\n"); }},
    {"HugePagesNever", "huge-pages", Verdict::warn, "4 KiB",
     [](FakeHost& f) { f.write(kHugePages, "always advise [never] deny force\n"); }},
    {"HugePagesHoarded", "huge-pages", Verdict::warn, "and unused",
     [](FakeHost& f) {
       f.write("/proc/meminfo",
               "MemTotal: 67108864 kB\nMemAvailable: 9000000 kB\nHugePages_Free: 24000\n"
               "Hugepagesize: 2048 kB\n");
     }},
    {"HugePagesUnknown", "huge-pages", Verdict::not_applicable, "can't be read",
     [](FakeHost& f) { f.remove(kHugePages); }},

    {"CpusFewer", "cpus", Verdict::warn, "can't spin", [](FakeHost&) {}, 6},
    {"CpusStarved", "cpus", Verdict::fail, "0.5 processors", [](FakeHost& f) { f.host.cpus = 0.5; },
     8},

    {"InfinibandWithoutDriver", "rdma-driver", Verdict::fail, "InfiniBand controller",
     [](FakeHost& f) {
       f.remove_rdma();
       f.write_pci(FakeHost::kNic, "class", "0x020700\n");
     }},
    {"EthernetWithoutDriver", "rdma-driver", Verdict::warn, "can do RDMA",
     [](FakeHost& f) { f.remove_rdma(); }},
    {"NoNic", "rdma-driver", Verdict::not_applicable, "no RDMA device",
     [](FakeHost& f) {
       f.remove_rdma();
       f.write_pci(FakeHost::kNic, "vendor", "0x8086\n");
     }},

    {"VerbsMissing", "rdma-library", Verdict::fail, "libibverbs.so.1: no such file",
     [](FakeHost& f) { f.lose_library("libibverbs.so.1"); }},
    {"ProvidersMissing", "rdma-library", Verdict::warn, "no provider",
     [](FakeHost& f) { f.remove("/etc/libibverbs.d"); }},

    {"UverbsForbidden", "rdma-rights", Verdict::fail, "Permission denied",
     [](FakeHost& f) { f.refuse("/dev/infiniband/uverbs0", EACCES); }},
    {"UverbsNotInContainer", "rdma-rights", Verdict::fail, "is not here",
     [](FakeHost& f) { f.refuse("/dev/infiniband/uverbs0", ENOENT); }},
    {"UverbsModuleMissing", "rdma-rights", Verdict::fail, "no device file for it",
     [](FakeHost& f) { f.remove("/sys/class/infiniband_verbs"); }},
    {"ConnectionManagerForbidden", "rdma-rights", Verdict::warn, "WEFT_CONNECT=cm",
     [](FakeHost& f) { f.refuse("/dev/infiniband/rdma_cm", EACCES); }},

    {"OnlyPortDown", "port", Verdict::fail, "DOWN",
     [](FakeHost& f) { f.write(kPort + "state", "1: DOWN\n"); }},
    {"OnePortDown", "port", Verdict::warn, "Disabled",
     [](FakeHost& f) { f.add_port_that_is_down(); }},
    {"NoSubnetManager", "port", Verdict::fail, "subnet manager",
     [](FakeHost& f) { f.write(kPort + "state", "2: INIT\n"); }},

    {"NoRoutableGid", "gid", Verdict::fail, "no RoCE v2 GID",
     [](FakeHost& f) { f.remove(kPort + "gids/3"); }},
    {"GidsOfAnotherNamespace", "gid", Verdict::fail, "network namespace",
     [](FakeHost& f) {
       for (int i = 0; i < 5; ++i) f.write(kPort + "gids/" + std::to_string(i), "");
     }},
    {"WantedGidMissing", "gid", Verdict::fail, "WEFT_IB_GID",
     [](FakeHost& f) { f.host.gid_index = 9; }},
    {"WantedGid", "gid", Verdict::ok, "index 2", [](FakeHost& f) { f.host.gid_index = 2; }},
    {"TwoNetworks", "gid", Verdict::warn, "5 would do as well",
     [](FakeHost& f) {
       f.write(kPort + "gids/5", "0000:0000:0000:0000:0000:ffff:ac10:0001\n");
       f.write(kPort + "gid_attrs/types/5", "RoCE v2\n");
     }},
    {"GlobalIpv6", "gid", Verdict::ok,
     "index 1 (2001:db8::1), the first RoCE v2 GID of a global IPv6",
     [](FakeHost& f) {
       f.remove(kPort + "gids/3");
       f.write(kPort + "gids/1", "2001:0db8:0000:0000:0000:0000:0000:0001\n");
     }},
    {"InfinibandGid", "gid", Verdict::ok, "index 0",
     [](FakeHost& f) { f.write(kPort + "link_layer", "InfiniBand\n"); }},

    {"MtuOfPlainEthernet", "mtu", Verdict::warn, "1024 bytes of 4096",
     [](FakeHost& f) { f.write("/sys/class/net/ens1/mtu", "1500\n"); }},
    {"MtuTiny", "mtu", Verdict::fail, "512 bytes",
     [](FakeHost& f) { f.write("/sys/class/net/ens1/mtu", "1000\n"); }},
    {"MtuOfInfiniband", "mtu", Verdict::not_applicable, "subnet manager",
     [](FakeHost& f) { f.write(kPort + "link_layer", "InfiniBand\n"); }},

    {"EightLanesOfSixteen", "pci-link", Verdict::warn, "x8 at 16 GT/s of x16 at 16 GT/s, though",
     [](FakeHost& f) { f.write_pci(FakeHost::kNic, "current_link_width", "8\n"); }},
    {"SlotOfEightLanes", "pci-link", Verdict::warn, "0000:02:01.0 above it has x8",
     [](FakeHost& f) {
       f.write_pci(FakeHost::kNic, "current_link_width", "8\n");
       f.write_pci(FakeHost::kNicPort, "max_link_width", "8\n");
     }},
    {"FourLanesOfSixteen", "pci-link", Verdict::fail, "x4",
     [](FakeHost& f) { f.write_pci(FakeHost::kGpu, "current_link_width", "4\n"); }},
    {"IdleGpu", "pci-link", Verdict::ok, "x16",
     [](FakeHost& f) { f.write_pci(FakeHost::kGpu, "current_link_speed", "2.5 GT/s PCIe\n"); }},
    {"LinkOfAVirtualMachine", "pci-link", Verdict::not_applicable, "virtual",
     [](FakeHost& f) {
       for (const char* device : {FakeHost::kNic, FakeHost::kGpu}) {
         f.write_pci(device, "current_link_speed", "Unknown\n");
         f.write_pci(device, "max_link_width", "255\n");
       }
     }},

    {"PortFasterThanPci", "port-rate", Verdict::warn, "400 Gb/s of ports",
     [](FakeHost& f) { f.write(kPort + "rate", "400 Gb/sec (4X NDR)\n"); }},
    {"PortMuchFasterThanPci", "port-rate", Verdict::fail, "200 Gb/s of ports behind 63",
     [](FakeHost& f) { f.write_pci(FakeHost::kNic, "current_link_width", "4\n"); }},
    {"OneLaneOfCable", "port-rate", Verdict::warn, "1X",
     [](FakeHost& f) {
       f.write(kPort + "link_layer", "InfiniBand\n");
       f.write(kPort + "rate", "25 Gb/sec (1X EDR)\n");
     }},

    {"NoCudaDriver", "cuda", Verdict::fail, "no such library",
     [](FakeHost& f) {
       f.host.cuda = [] { return topology::CudaAnswer{"", "no such library", {}}; };
     }},
    {"NoCudaDevice", "cuda", Verdict::fail, "0 of 1",
     [](FakeHost& f) { f.host.cuda = [] {
                         return topology::CudaAnswer{"12.4", "", {}};
                       }; }},
    {"FewerCudaDevices", "cuda", Verdict::warn, "1 of 2", [](FakeHost& f) { f.add_gpu_beside(); }},
    {"OldCuda", "cuda", Verdict::warn, "11.7",
     [](FakeHost& f) {
       f.host.cuda = [] {
         return topology::CudaAnswer{"11.4", "", std::vector<topology::CudaDevice>(1)};
       };
     }},
    {"NoGpu", "cuda", Verdict::not_applicable, "no NVIDIA GPU", no_gpu},

    {"NoPeerMemory", "peer-memory", Verdict::fail, "host memory",
     [](FakeHost& f) { f.host.kernel = "4.18.0-553.el8"; }},
    {"ClosedDriver", "peer-memory", Verdict::fail, "not here",
     [](FakeHost& f) { f.remove("/proc/driver/nvidia/version"); }},
    {"OldPeerMemory", "peer-memory", Verdict::warn, "nv_peer_mem",
     [](FakeHost& f) {
       f.remove("/proc/driver/nvidia/version");
       f.write("/sys/module/nv_peer_mem/version", "1.0\n");
     }},
    {"PeerMemoryModule", "peer-memory", Verdict::ok, "nvidia_peermem",
     [](FakeHost& f) {
       f.remove("/proc/driver/nvidia/version");
       f.write("/sys/module/nvidia_peermem/version", "535\n");
     }},

    {"IommuBetween", "iommu", Verdict::fail, "through the processor",
     [](FakeHost& f) {
       iommu_group(f, FakeHost::kGpu, "DMA");
       iommu_group(f, FakeHost::kNic, "DMA-FQ");
     }},
    {"IommuOfNic", "iommu", Verdict::warn, FakeHost::kNic,
     [](FakeHost& f) { iommu_group(f, FakeHost::kNic, "DMA"); }},
    {"IommuPassesThrough", "iommu", Verdict::ok, "passes",
     [](FakeHost& f) { iommu_group(f, FakeHost::kNic, "identity"); }},
    {"IommuUnknown", "iommu", Verdict::not_applicable, "kernel does not report",
     [](FakeHost& f) { f.write_pci(FakeHost::kNic, "iommu_group/reserved_regions", ""); }},

    {"AcsBetweenGpuAndNic", "acs", Verdict::fail, FakeHost::kNicPort,
     [](FakeHost& f) { f.write_config(FakeHost::kNicPort, true); }},
    {"AcsBetweenGpus", "acs", Verdict::warn, "0000:02:02.0",
     [](FakeHost& f) {
       f.remove_rdma();
       f.add_gpu_beside();
       f.write_config("0000:02:02.0", true);
     }},
    {"AcsForRootAlone", "acs", Verdict::not_applicable, "only root",
     [](FakeHost& f) { f.write_config(FakeHost::kNicPort, true, 64); }},
    {"AcsWithoutGpu", "acs", Verdict::not_applicable, "no GPU shares", no_gpu},

    {"NoPmix", "pmix", Verdict::fail, "libpmix.so.2",
     [](FakeHost& f) { f.lose_library("libpmix.so.2"); }},
    {"NoLauncher", "pmix", Verdict::warn, "no launcher",
     [](FakeHost& f) { f.remove("/usr/bin/srun"); }},

    {"SlurmWithoutPlugin", "slurm", Verdict::fail, "mpi_pmix",
     [](FakeHost& f) { f.remove("/usr/lib/x86_64-linux-gnu/slurm-wlm"); }},
    {"SlurmWithoutUnversionedPmix", "slurm", Verdict::fail, "without a version",
     [](FakeHost& f) { f.lose_library("libpmix.so"); }},
    {"SlurmDefaultsToNothing", "slurm", Verdict::warn, "MpiDefault is none",
     [](FakeHost& f) { f.remove("/etc/slurm"); }},
    {"NoSlurm", "slurm", Verdict::not_applicable, "not in PATH",
     [](FakeHost& f) { f.remove("/usr/bin/srun"); }},
};

TEST(Doctor, FindsNothingAmissWithAMachineThatIsWell) {
  FakeHost fake;
  const auto findings = examine(fake.host, std::nullopt);
  std::set<std::string> said;
  for (const Finding& finding : findings) {
    said.insert(finding.check);
    EXPECT_EQ(finding.verdict, Verdict::ok) << finding.check << ": " << finding.says;
    EXPECT_EQ(finding.fix, "") << finding.check;
  }
  EXPECT_EQ(said.size(), checks().size());
  EXPECT_EQ(exit_code(findings), 0);
  EXPECT_NE(worst(findings, "gid").says.find("index 3 (10.9.0.10)"), std::string::npos);
}

TEST(Doctor, SaysOfEveryPlantedFaultWhatItIsAndWhatToDo) {
  for (const Fault& fault : kFaults) expect_found(fault);
}

TEST(Doctor, CanSayOkWarnAndFailOfEachCheck) {
  std::set<std::pair<std::string_view, Verdict>> said;
  for (const Fault& fault : kFaults) said.emplace(fault.check, fault.verdict);
  for (const Check& check : checks()) {
    if (check.name.starts_with("tcp-")) continue;  // doctor_tcp_test.cpp has their faults
    for (const Verdict verdict : {Verdict::warn, Verdict::fail})
      EXPECT_TRUE(said.contains({check.name, verdict})) << check.name << ": " << name(verdict);
  }
}

TEST(Doctor, GoesOnWhereNothingCanBeSeen) {
  FakeHost fake;
  for (const char* top : {"/sys", "/proc", "/etc", "/usr"}) fake.remove(top);
  for (const Check& check : checks()) fake.lose_library(std::string(check.name));
  const auto findings = examine(fake.host, 1);
  EXPECT_GE(findings.size(), checks().size());
  for (const Finding& finding : findings) EXPECT_NE(finding.says, "") << finding.check;
}

TEST(Doctor, TellsACheckThatFailsAsALineAndGoesOn) {
  FakeHost fake;
  fake.host.cuda = []() -> topology::CudaAnswer { throw std::runtime_error("driver fell over"); };
  const auto findings = examine(fake.host, std::nullopt);
  EXPECT_NE(worst(findings, "cuda").says.find("driver fell over"), std::string::npos);
  EXPECT_EQ(worst(findings, "slurm").verdict, Verdict::ok);
}

TEST(Doctor, EndsWithACodeForTheWorst) {
  const Finding fine{.verdict = Verdict::ok};
  const Finding other{.verdict = Verdict::not_applicable};
  const Finding warning{.verdict = Verdict::warn};
  const Finding failure{.verdict = Verdict::fail};
  EXPECT_EQ(exit_code(std::vector{other}), 0);
  EXPECT_EQ(exit_code(std::vector{fine, other, warning}), 1);
  EXPECT_EQ(exit_code(std::vector{failure, warning, fine}), 3);
}

TEST(Doctor, TellsProgramsAndPeopleTheSame) {
  FakeHost fake;
  fake.write(kPort + "state", "1: DOWN\n");
  const auto findings = examine(fake.host, std::nullopt);
  const auto json = nlohmann::json::parse(as_json(findings));
  const auto text = as_text(findings, false);
  EXPECT_EQ(json["schema"], "weft-doctor/1");
  EXPECT_EQ(json["verdict"], "fail");
  ASSERT_EQ(json["findings"].size(), findings.size());
  for (std::size_t i = 0; i < findings.size(); ++i) {
    EXPECT_EQ(json["findings"][i]["check"], findings[i].check);
    EXPECT_EQ(json["findings"][i]["verdict"], name(findings[i].verdict));
    EXPECT_NE(text.find(topology::render::in_both_units(findings[i].says)), std::string::npos);
    EXPECT_NE(text.find(findings[i].fix), std::string::npos);
  }
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_NE(as_text(findings, true).find("\033["), std::string::npos);
}

}  // namespace
}  // namespace weft::doctor
