#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/topology_tool/fake_host.hpp"
#include "tests/unit/topology_tool/planted_fault.hpp"
#include "topology/doctor/checks.hpp"

namespace weft::doctor {
namespace {

using tests::expect_found;
using tests::FakeHost;
using tests::Fault;
using tests::worst;
const std::string kIpv4 = "/proc/sys/net/ipv4/";
const std::string kDefaultQdisc = "/proc/sys/net/core/default_qdisc";

const std::vector<Fault> kTcpFaults{
    {"Bbr", "tcp-congestion", Verdict::warn, "may choose cubic or reno",
     [](FakeHost& f) { f.write(kIpv4 + "tcp_congestion_control", "bbr\n"); }},
    {"BbrOfAnotherVersion", "tcp-congestion", Verdict::warn, "bbr2 paces",
     [](FakeHost& f) { f.write(kIpv4 + "tcp_congestion_control", "bbr2\n"); }},
    {"Reno", "tcp-congestion", Verdict::ok, "reno, which does not pace",
     [](FakeHost& f) { f.write(kIpv4 + "tcp_congestion_control", "reno\n"); }},
    {"CongestionControlUnknown", "tcp-congestion", Verdict::not_applicable, "can't be read",
     [](FakeHost& f) { f.remove(kIpv4 + "tcp_congestion_control"); }},

    {"ReceiveBufferSmallForThePort", "tcp-buffers", Verdict::warn,
     "up to 6 MiB of 32 MiB: 0.5 ms at 200 Gb/s (ens1), twice for the kernel's accounting, take "
     "23.84 MiB",
     [](FakeHost& f) { f.write(kIpv4 + "tcp_rmem", "4096\t131072\t6291456\n"); }},
    {"DefaultsAreEnoughFor25Gbit", "tcp-buffers", Verdict::ok, "up to 4 MiB",
     [](FakeHost& f) {
       f.write("/sys/class/net/ens1/speed", "25000\n");
       f.write(kIpv4 + "tcp_rmem", "4096 131072 4194304\n");
       f.write(kIpv4 + "tcp_wmem", "4096 16384 4194304\n");
     }},
    {"SendBufferSmallAtAnyRate", "tcp-buffers", Verdict::warn, "1 MiB of 4 MiB",
     [](FakeHost& f) {
       f.write("/sys/class/net/ens1/speed", "-1\n");
       f.write(kIpv4 + "tcp_wmem", "4096 16384 1048576\n");
     }},
    {"BuffersFixed", "tcp-buffers", Verdict::warn, "never grow",
     [](FakeHost& f) { f.write(kIpv4 + "tcp_moderate_rcvbuf", "0\n"); }},
    {"BuffersUnknown", "tcp-buffers", Verdict::not_applicable, "tcp_rmem can't be read",
     [](FakeHost& f) {
       f.write(kIpv4 + "tcp_rmem", "4096\n");
       f.remove(kIpv4 + "tcp_wmem");
     }},

    {"MtuOfAFastPort", "tcp-mtu", Verdict::warn, "MTU 1500 at 200 Gb/s",
     [](FakeHost& f) { f.write("/sys/class/net/ens1/mtu", "1500\n"); }},
    {"MtuOfASlowPort", "tcp-mtu", Verdict::ok, "MTU 1500 at 1 Gb/s",
     [](FakeHost& f) {
       f.write("/sys/class/net/ens1/mtu", "1500\n");
       f.write("/sys/class/net/ens1/speed", "1000\n");
     }},
    {"MtuOfAPortOfUnknownRate", "tcp-mtu", Verdict::not_applicable, "reports no rate",
     [](FakeHost& f) {
       f.write("/sys/class/net/ens1/mtu", "1500\n");
       f.write("/sys/class/net/ens1/speed", "4294967295\n");
     }},
    {"MtuOfSoftware", "tcp-mtu", Verdict::ok, "MTU 9000",
     [](FakeHost& f) { f.add_software_interface("docker0", "noqueue"); }},
    {"MtuOfAPortThatIsDown", "tcp-mtu", Verdict::not_applicable, "no Ethernet NIC is up",
     [](FakeHost& f) {
       f.write("/sys/class/net/ens1/mtu", "1500\n");
       f.write("/sys/class/net/ens1/operstate", "down\n");
     }},
    {"MtuOfABond", "tcp-mtu", Verdict::warn, "MTU 1500 at 10 Gb/s",
     [](FakeHost& f) {
       f.write("/sys/class/net/ens1/bonding_slave/state", "active\n");
       f.add_software_interface("bond0", "noqueue");
       f.write("/sys/class/net/bond0/bonding/mode", "802.3ad 4\n");
     }},

    {"FqUnderBbr", "tcp-qdisc", Verdict::warn, "mq, fq; fq paces what asks for it, as bbr does",
     [](FakeHost& f) {
       f.write(kIpv4 + "tcp_congestion_control", "bbr\n");
       f.qdiscs.qdiscs = {{"ens1", "mq"}, {"ens1", "fq"}, {"ens1", "fq"}};
     }},
    {"FqUnderCubic", "tcp-qdisc", Verdict::ok, "fq; fq paces only what asks for it",
     [](FakeHost& f) { f.write(kDefaultQdisc, "fq\n"); }},
    {"DefaultFqUnderBbr", "tcp-qdisc", Verdict::warn, "new interfaces: fq; fq paces",
     [](FakeHost& f) {
       f.write(kIpv4 + "tcp_congestion_control", "bbr\n");
       f.write(kDefaultQdisc, "fq\n");
     }},
    {"TokenBucket", "tcp-qdisc", Verdict::warn, "tbf limits the rate",
     [](FakeHost& f) {
       f.qdiscs.qdiscs = {{"ens1", "tbf"}};
     }},
    {"ClassesBelowPrio", "tcp-qdisc", Verdict::warn, "prio, netem; netem delays",
     [](FakeHost& f) {
       f.qdiscs.qdiscs = {{"ens1", "prio"}, {"ens1", "netem"}};
     }},
    {"TokenBucketOfAnotherContainer", "tcp-qdisc", Verdict::ok, "fq_codel",
     [](FakeHost& f) { f.add_software_interface("veth0", "tbf"); }},
    {"TokenBucketInAContainer", "tcp-qdisc", Verdict::warn, "tbf limits",
     [](FakeHost& f) {
       f.remove("/sys/class/net/ens1");
       f.add_software_interface("eth0", "tbf");
     }},
    {"QdiscsHidden", "tcp-qdisc", Verdict::not_applicable, "Operation not permitted",
     [](FakeHost& f) {
       f.remove(kDefaultQdisc);
       f.qdiscs = {.error = EPERM};
     }},
};

TEST(DoctorOfTcp, SaysOfEveryPlantedFaultWhatItIsAndWhatToDo) {
  for (const Fault& fault : kTcpFaults) expect_found(fault);
}

TEST(DoctorOfTcp, CanWarnByEachCheck) {
  std::set<std::string_view> warned;
  for (const Fault& fault : kTcpFaults)
    if (fault.verdict == Verdict::warn) warned.insert(fault.check);
  for (const Check& check : checks())
    if (check.name.starts_with("tcp-")) {
      EXPECT_TRUE(warned.contains(check.name)) << check.name;
    }
}

TEST(DoctorOfTcp, NamesTheCommandsThatHelp) {
  FakeHost fake;
  fake.write(kIpv4 + "tcp_congestion_control", "bbr\n");
  fake.write(kIpv4 + "tcp_available_congestion_control", "reno bbr\n");
  fake.write(kIpv4 + "tcp_rmem", "4096\t131072\t6291456\n");
  fake.write("/sys/class/net/ens1/mtu", "1500\n");
  fake.qdiscs.qdiscs = {{"ens1", "tbf"}};
  const auto findings = examine(fake.host, std::nullopt);
  const auto fix_of = [&](std::string_view check) { return worst(findings, check).fix; };
  EXPECT_TRUE(fix_of("tcp-congestion").starts_with("sysctl net.ipv4.tcp_congestion_control=reno "))
      << fix_of("tcp-congestion");
  EXPECT_EQ(fix_of("tcp-buffers"), "sysctl net.ipv4.tcp_rmem=\"4096 131072 33554432\"");
  EXPECT_TRUE(fix_of("tcp-mtu").starts_with("ip link set ens1 mtu 9000,")) << fix_of("tcp-mtu");
  EXPECT_TRUE(fix_of("tcp-qdisc").ends_with("tc qdisc del dev ens1 root")) << fix_of("tcp-qdisc");
}

TEST(DoctorOfTcp, ListsTheQdiscsOfThisMachine) {
  const QdiscAnswer answer = ask_qdiscs();
  if (answer.error != 0) GTEST_SKIP() << "no rtnetlink here: " << std::strerror(answer.error);
  for (const Qdisc& qdisc : answer.qdiscs) {
    EXPECT_NE(qdisc.interface, "");
    EXPECT_NE(qdisc.kind, "");
  }
}

}  // namespace
}  // namespace weft::doctor
