// The user's settings: how far GPUDirect goes, and which NIC belongs to which rank.
#include <gtest/gtest.h>

#include "tests/unit/topology/machines.hpp"
#include "weft/error.hpp"

namespace weft::topology {
namespace {

using Lines = std::vector<std::string>;

Lines choose(const Model& model, const Policy& policy = {}) {
  return summary(model, select(model, rank_per_gpu(model), policy));
}

TEST(Policy, GpuDirectEndsAtTheLevel) {
  Machine machine;
  machine.numa(0, 0, {0});
  const int bridge = machine.host_bridge(0);
  machine.gpu(bridge, "0000:01:00.0");
  machine.nic(bridge, "0000:02:00.0", "a");
  const Model model = machine.build();
  const auto gdr = [&](const char* level) {
    Policy policy;
    set_gdr_level(policy, level);
    return select(model, rank_per_gpu(model), policy).choices.at(0).gdr;
  };
  EXPECT_FALSE(gdr("PXB"));
  EXPECT_TRUE(gdr("poster"));
  EXPECT_TRUE(gdr("phb"));
  EXPECT_TRUE(gdr("SYS"));
  EXPECT_FALSE(gdr("never"));
  EXPECT_THROW(gdr("close"), Error);
}

TEST(Policy, GpuDirectNeedsADriverThatOffersIt) {
  Model model = two_sockets({"a", "b", "c", "d"}).build();
  model.facts.peermem = false;
  model.gpus[0].dma_buf = false;
  model.gpus[1].gpudirect = false;
  model.gpus[2].dma_buf = true;
  const Selection selection = select(model, rank_per_gpu(model));
  EXPECT_FALSE(selection.choices[0].gdr);
  EXPECT_EQ(selection.choices[0].bounce_numa, 0);
  EXPECT_FALSE(selection.choices[1].gdr);
  EXPECT_TRUE(selection.choices[2].gdr && selection.choices[3].gdr);
}

TEST(Policy, OverridesAreObeyedWhereTheyArePossible) {
  Machine machine = two_sockets({"a", "b", "c", "d"});
  machine.nic(machine.host_bridge(1), "0000:91:00.0", "slow", 25);
  machine.nic(machine.host_bridge(1), "0000:92:00.0", "off");
  machine.last_port().state = PortState::down;
  const Model model = machine.build();
  EXPECT_EQ(choose(model, {.nic = "slow"})[0], "0000:03:00.0 -> slow SYS [slow]");
  Policy pairs;
  pairs.gpu_nic = parse_gpu_nic("GPU0=d,0000:84:00.0=0000:05:00.0");
  EXPECT_EQ(choose(model, pairs),
            (Lines{"0000:03:00.0 -> d SYS [d]", "0000:04:00.0 -> b PIX gdr [a b]",
                   "0000:83:00.0 -> c PIX gdr [c d]", "0000:84:00.0 -> a SYS [a]"}));
  const auto refusal = [&](const Policy& policy) {
    try {
      select(model, rank_per_gpu(model), policy);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::bad_config);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(refusal({.nic = "e"}).find("there are a, b, c, d, slow, off"), std::string::npos);
  EXPECT_NE(refusal({.nic = "off"}).find("port 1 is down"), std::string::npos);
  EXPECT_NE(refusal({.nic = "a:2"}).find("no such NIC"), std::string::npos);
  EXPECT_NE(refusal({.gpu_nic = {{"GPU9", "a"}}}).find("no GPU \"GPU9\""), std::string::npos);
  EXPECT_NE(refusal({.gpu_nic = {{"GPU0", "a"}, {"0000:03:00.0", "b"}}}).find("before"),
            std::string::npos);
  for (const char* text : {"GPU0", "GPU0=", "=a", "GPU0=a,", ","})
    EXPECT_THROW(parse_gpu_nic(text), Error) << text;
}

TEST(PciAddress, ReadsWhatToolsWrite) {
  EXPECT_EQ(PciAddress::parse("00000000:0F:00.0")->text(), "0000:0f:00.0");
  EXPECT_EQ(PciAddress::parse("10000:e1:00.0")->text(), "10000:e1:00.0");
  EXPECT_EQ(PciAddress::parse("0f:1f.7")->text(), "0000:0f:1f.7");
  EXPECT_EQ(PciAddress::parse("ffff:ff:01.0")->domain, 0xffffU);
  for (const char* text : {"", ":", "0000:0f:00", "0000:0f:20.0", "0000:0f:00.8", "0000:0f:00.0 ",
                           "00:00:0f:00.0", "0000:0g:00.0", "000000000:0f:00.0", "-1:00.0"})
    EXPECT_FALSE(PciAddress::parse(text)) << text;
}

}  // namespace
}  // namespace weft::topology
