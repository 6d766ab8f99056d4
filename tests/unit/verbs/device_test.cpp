#include "p2p/transport/verbs/device/device.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/verbs/device_rig.hpp"
#include "weft/error.hpp"

namespace weft::p2p::verbs {
namespace {

using fake::FakeNetwork;
using fake::NicSpec;

fake::PortSpec down() {
  fake::PortSpec port;
  port.up = false;
  return port;
}

fake::PortSpec infiniband() {
  fake::PortSpec port;
  port.ethernet = false;
  return port;
}

TEST(VerbsOptions, AreWhatTheConfigurationSays) {
  const VerbsOptions defaults = VerbsOptions::read(Config());
  EXPECT_EQ(defaults.text(),
            "WEFT_NIC= WEFT_RAILS=auto WEFT_IB_GID=auto WEFT_QPS_PER_PEER=1 WEFT_CQS=0 "
            "WEFT_QUEUE_DEPTH=1024 "
            "WEFT_NOTIFY=auto WEFT_IB_TIMEOUT=14 WEFT_IB_SL=0 "
            "WEFT_IB_TRAFFIC_CLASS=0 WEFT_IB_PKEY=0 WEFT_IB_MTU=active WEFT_IB_MAX_MESSAGE=auto "
            "WEFT_CONNECT=tcp WEFT_MESH_EAGER=128");
  EXPECT_EQ(defaults.text(), VerbsOptions().text()) << "both have the same defaults";
  EXPECT_EQ(defaults.arena_bytes, 18U << 20U);
  const VerbsOptions options = VerbsOptions::read(Config()
                                                      .with(Setting::nic, "rxe0:1")
                                                      .with(Setting::rails, "2")
                                                      .with(Setting::ib_gid, "3")
                                                      .with(Setting::qps_per_peer, "8")
                                                      .with(Setting::cqs, "2")
                                                      .with(Setting::queue_depth, "16")
                                                      .with(Setting::notify, "counted")
                                                      .with(Setting::ib_timeout, "31")
                                                      .with(Setting::ib_sl, "15")
                                                      .with(Setting::ib_traffic_class, "255")
                                                      .with(Setting::ib_pkey, "65535")
                                                      .with(Setting::ib_mtu, "4096")
                                                      .with(Setting::ib_max_message, "64k")
                                                      .with(Setting::connect, "cm")
                                                      .with(Setting::mesh_eager, "0"));
  EXPECT_EQ(
      options.text(),
      "WEFT_NIC=rxe0:1 WEFT_RAILS=2 WEFT_IB_GID=3 WEFT_QPS_PER_PEER=8 WEFT_CQS=2 "
      "WEFT_QUEUE_DEPTH=16 "
      "WEFT_NOTIFY=counted WEFT_IB_TIMEOUT=31 WEFT_IB_SL=15 "
      "WEFT_IB_TRAFFIC_CLASS=255 WEFT_IB_PKEY=65535 WEFT_IB_MTU=4096 WEFT_IB_MAX_MESSAGE=65536 "
      "WEFT_CONNECT=cm WEFT_MESH_EAGER=0");
  EXPECT_EQ(options.mtu, 4096);
  EXPECT_EQ(options.notify_mode, NotifyMode::counted);
}

TEST(Device, TakesTheBestPortOfAllDevicesAndSaysSo) {
  FakeNetwork network;
  DeviceRig rig(network.devices(0, {NicSpec{.name = "fake0", .ports = {down()}},
                                    NicSpec{.name = "fake1", .ports = {down(), {}}}}));
  EXPECT_EQ(rig.device().name(), "fake1:2");
  EXPECT_STREQ(rig.device().address().device.data(), "fake1:2");
  EXPECT_EQ(rig.device().address().present, 1);
  EXPECT_TRUE(rig.logged("verbs: fake1:2 (up, RoCE, 100 Gb/s, MTU 4096), GID"));
  EXPECT_TRUE(rig.logged("passed over: fake0:1 is down"));
  EXPECT_TRUE(rig.logged("settings in force: WEFT_NIC= WEFT_RAILS=auto WEFT_IB_GID=auto"));
  EXPECT_FALSE(rig.logged("must not fork"));
}

TEST(Device, SaysOfEveryPortWhyItIsNotIt) {
  FakeNetwork network;
  DeviceRig rig(network.devices(
      0, {NicSpec{.name = "fake0", .ports = {down()}}, NicSpec{.name = "iw0", .iwarp = true},
          NicSpec{.name = "shut0",
                  .faults = {.refusals = {{fake::VerbsCall::open_device, 1, EACCES}}}}}));
  const std::string line = rig.refusal(Code::unreachable);
  EXPECT_EQ(
      line.find("join: unreachable: no RDMA port can be used: fake0:1 is down; iw0:1 is iWARP, "
                "which only the connection manager connects (WEFT_CONNECT=cm); shut0:1 can't "
                "be opened: Permission denied"),
      0U)
      << line;
  DeviceRig none(network.devices(1, {}));
  EXPECT_EQ(none.refusal(Code::unreachable).find("join: unreachable: this machine has no RDMA"),
            0U);
}

TEST(Device, RefusesSettingsThatThePortDoesNotHave) {
  FakeNetwork network;
  fake::PortSpec small;
  small.mtu = IBV_MTU_1024;
  VerbsOptions options;
  options.mtu = 2048;
  DeviceRig mtu(network.device(0, NicSpec{.ports = {small}}), options);
  EXPECT_NE(
      mtu.refusal(Code::bad_config).find("WEFT_IB_MTU=2048: the active MTU of fake0:1 is 1024"),
      std::string::npos);
  options = {};
  options.gid_index = 77;
  DeviceRig gid(network.device(1), options);
  EXPECT_NE(gid.refusal(Code::bad_config).find("has no GID 77 (WEFT_IB_GID)"), std::string::npos);
  options = {};
  options.pkey_index = 9000;
  DeviceRig pkey(network.device(2), options);
  EXPECT_NE(pkey.refusal(Code::bad_config).find("WEFT_IB_PKEY=9000: fake0:1 has "),
            std::string::npos);
}

TEST(Device, TakesAsDeepQueuesAsTheDeviceAllows) {
  FakeNetwork network;
  VerbsOptions options;
  options.depth = 32768;
  DeviceRig rig(network.device(0, NicSpec{.max_depth = 128}), options);
  EXPECT_EQ(rig.device().options().depth, 128U);
  EXPECT_TRUE(rig.logged("WEFT_QUEUE_DEPTH=32768: fake0:1 allows 128"));
}

TEST(Device, MakesWorkRequestsNoLargerThanAskedForNorThanTheDeviceCan) {
  FakeNetwork network;
  VerbsOptions options;
  const NicSpec nic{.max_message = 1U << 20U};
  DeviceRig device(network.device(0, nic), options);
  EXPECT_EQ(device.device().limits().max_message, 1U << 20U);
  options.max_message = 1024;
  DeviceRig asked(network.device(1, nic), options);
  EXPECT_EQ(asked.device().limits().max_message, 1024U);
  options.max_message = 1U << 30U;
  DeviceRig too_much(network.device(2, nic), options);
  EXPECT_EQ(too_much.device().limits().max_message, 1U << 20U);
}

TEST(Device, RefusesWhatTheDeviceHasNoRoomFor) {
  FakeNetwork network;
  VerbsOptions options;
  options.arena_bytes = 18U << 20U;
  DeviceRig arenas(network.device(0, NicSpec{.max_regions = 1}), options);
  EXPECT_NE(arenas.refusal(Code::exhausted)
                .find("2 regions are to be registered, and the device allows 1"),
            std::string::npos);
}

TEST(Device, SaysWhatRegisteringLackedWithTheFigures) {
  FakeNetwork network;
  DeviceRig rig(network.device(0, NicSpec{.max_registered = 4096}));
  std::vector<std::byte> memory(8192);
  try {
    static_cast<void>(
        rig.device().register_memory(memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE));
    FAIL() << "was registered";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::exhausted);
    const std::string line = error.what();
    for (const char* const part : {"8192 bytes with fake0:1", "Cannot allocate memory",
                                   "RLIMIT_MEMLOCK is", "the device allows 65536 regions"})
      EXPECT_NE(line.find(part), std::string::npos) << line;
  }
}

TEST(Device, WarnsWhereAForkWouldBreakRegisteredMemory) {
  FakeNetwork network;
  DeviceRig rig(network.device(0));
  rig.verbs->forks_safely = false;
  static_cast<void>(rig.device());
  EXPECT_TRUE(rig.logged("this process must not fork while it uses RDMA"));
}

TEST(DeviceEvents, FollowThePortAndAreSilentOnOthers) {
  FakeNetwork network;
  DeviceRig rig(network.device(0, NicSpec{.ports = {infiniband(), infiniband()}}));
  Device& device = rig.device();
  ASSERT_EQ(device.name(), "fake0:1");
  const auto on_queue_pair = [](ibv_qp*) { FAIL() << "no queue pair was meant"; };
  device.handle_event(on_queue_pair);  // there is none: returns at once
  network.set_port(0, false, 2);
  device.handle_event(on_queue_pair);
  EXPECT_FALSE(rig.logged("the link is down"));
  network.set_port(0, false);
  device.handle_event(on_queue_pair);
  EXPECT_TRUE(rig.logged("error path: fake0:1: "));
  EXPECT_TRUE(rig.logged("the link is down: transfers wait for it"));
  network.set_port(0, true);
  device.handle_event(on_queue_pair);
  network.announce(0, IBV_EVENT_LID_CHANGE);
  device.handle_event(on_queue_pair);
  EXPECT_TRUE(rig.logged("another LID"));
  network.fail(0);
  int all = 0;
  device.handle_event([&](ibv_qp* qp) { all += qp == nullptr ? 1 : 0; });
  EXPECT_EQ(all, 1) << "all queue pairs are meant";
  EXPECT_TRUE(rig.logged("the device failed: every path over it is lost"));
  EXPECT_EQ(network.complaints(), "");
}

TEST(DeviceEvents, SayWhetherTheGidInUseIsStillThere) {
  FakeNetwork network;
  DeviceRig rig(network.device(0));
  const auto ignore = [](ibv_qp*) {};
  static_cast<void>(rig.device());
  network.announce(0, IBV_EVENT_GID_CHANGE);
  rig.device().handle_event(ignore);
  EXPECT_TRUE(rig.logged("which is in use, is still there"));
  EXPECT_FALSE(rig.logged("is gone"));
  rig.verbs->gids_gone = true;
  network.announce(0, IBV_EVENT_GID_CHANGE);
  rig.device().handle_event(ignore);
  EXPECT_TRUE(rig.logged("which is in use, is gone"));
}

}  // namespace
}  // namespace weft::p2p::verbs
