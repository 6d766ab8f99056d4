// Discovery, on a folder that looks like /.
#include "topology/discover/discover.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/unit/topology/machines.hpp"
#include "topology/discover/acs.hpp"
#include "topology/json/json.hpp"
#include "topology/placement/place.hpp"

namespace weft::topology {
namespace {

namespace fs = std::filesystem;

class Discovery : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "weft-topology-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    // No other thread runs in this program.
    ASSERT_EQ(::setenv("HWLOC_FSROOT", root_.c_str(), 1), 0);
    // hwloc gives a machine up that has no processor.
    put("/sys/devices/system/cpu/cpu0/topology/core_siblings", "1");
  }
  void TearDown() override {
    ::unsetenv("HWLOC_FSROOT");
    fs::remove_all(root_);
  }

  void put(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ + path).substr(0, (root_ + path).rfind('/')));
    std::ofstream(root_ + path) << text << '\n';
  }

  /// A PCI function at `place` below /sys/devices, as "pci0000:00/0000:00:01.0/0000:01:00.0".
  void pci(const std::string& place, const std::string& device_class, const std::string& vendor,
           int numa, const std::string& speed = "16.0 GT/s PCIe",
           const std::string& width = "16") const {
    const std::string address = place.substr(place.rfind('/') + 1);
    const std::string folder = "/sys/devices/" + place;
    put(folder + "/class", device_class);
    put(folder + "/vendor", vendor);
    put(folder + "/device", "0x1017");
    put(folder + "/numa_node", std::to_string(numa));
    put(folder + "/local_cpus", numa == 0 ? "1" : "2");
    put(folder + "/current_link_speed", speed);
    put(folder + "/max_link_speed", "16.0 GT/s PCIe");
    put(folder + "/current_link_width", width);
    put(folder + "/max_link_width", "16");
    link("/sys/bus/pci/devices/" + address, "../../../devices/" + place);
  }

  /// A bridge to the buses `first` to `last`: hwloc builds its tree from these numbers.
  void bridge(const std::string& place, const std::string& vendor, int first, int last,
              const std::string& speed = "16.0 GT/s PCIe") const {
    pci(place, "0x060400", vendor, 0, speed);
    std::string config(64, '\0');
    config[0x0e] = 1;
    config[0x19] = static_cast<char>(first);
    config[0x1a] = static_cast<char>(last);
    put("/sys/devices/" + place + "/config", config);
  }

  void rdma(const std::string& name, const std::string& place, const std::string& state,
            const std::string& layer, const std::string& rate) const {
    const std::string folder = "/sys/devices/" + place + "/infiniband/" + name;
    put(folder + "/ports/1/state", state);
    put(folder + "/ports/1/link_layer", layer);
    put(folder + "/ports/1/rate", rate);
    put(folder + "/ports/1/gids/0", "fe80:0000:0000:0000:ec0d:9a03:0067:fdd4");
    put(folder + "/ports/1/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000");
    link("/sys/class/infiniband/" + name, "../../devices/" + place + "/infiniband/" + name);
  }

  void net(const std::string& name, const std::string& place) const {
    put("/sys/devices/" + place + "/net/" + name + "/address", "00:00:00:00:00:00");
    link("/sys/class/net/" + name, "../../devices/" + place + "/net/" + name);
  }

  void link(const std::string& path, const std::string& target) const {
    fs::create_directories((root_ + path).substr(0, (root_ + path).rfind('/')));
    fs::create_symlink(target, root_ + path);
  }

  /// Two sockets; a switch with a GPU and a NIC on the first.
  void typical() const {
    for (const int node : {0, 8}) {
      const std::string cpu = std::to_string(node / 8);
      const std::string folder = "/sys/devices/system/node/node" + std::to_string(node);
      put(folder + "/cpulist", cpu);
      put(folder + "/cpumap", node == 0 ? "1" : "2");
      put(folder + "/distance", node == 0 ? "10 40 80" : "40 10 80");
      put(folder + "/meminfo", "Node 0 MemTotal:       1024 kB\nNode 0 MemFree: 3 kB");
      put("/sys/devices/system/cpu/cpu" + cpu + "/topology/physical_package_id", cpu);
      put("/sys/devices/system/cpu/cpu" + cpu + "/topology/core_siblings", node == 0 ? "1" : "2");
    }
    put("/sys/devices/system/cpu/cpufreq/nothing", "");
    put("/sys/devices/system/node/node252/cpulist", "");
    put("/sys/devices/system/node/node252/cpumap", "0");
    put("/sys/devices/system/node/node252/distance", "80 80 10");
    put("/sys/devices/system/node/online", "0,8,252");
    put("/sys/devices/system/node/has_cpu", "0,8");
    put("/sys/devices/system/node/has_memory", "0,8,252");
    const std::string top = "pci0000:00/0000:00:01.0/0000:01:00.0";
    bridge("pci0000:00/0000:00:01.0", "0x8086", 1, 4);
    bridge(top, "0x10b5", 2, 4);
    bridge(top + "/0000:02:00.0", "0x10b5", 3, 3, "2.5 GT/s PCIe");
    pci(top + "/0000:02:00.0/0000:03:00.0", "0x030200", "0x10de", 0, "2.5 GT/s PCIe");
    bridge(top + "/0000:02:01.0", "0x10b5", 4, 4);
    pci(top + "/0000:02:01.0/0000:04:00.0", "0x020700", "0x15b3", 0, "16.0 GT/s PCIe", "8");
    rdma("mlx5_0", top + "/0000:02:01.0/0000:04:00.0", "4: ACTIVE", "InfiniBand",
         "200 Gb/sec (4X HDR)");
    net("ib0", top + "/0000:02:01.0/0000:04:00.0");
    // The console of a management controller, and its network interface.
    bridge("pci0000:00/0000:00:1c.0", "0x8086", 0x0b, 0x0b);
    pci("pci0000:00/0000:00:1c.0/0000:0b:00.0", "0x030000", "0x1a03", 0);
    pci("pci0000:80/0000:80:00.0", "0x020000", "0x8086", 8);
    net("eth0", "pci0000:80/0000:80:00.0/virtio0");
    net("lo", "virtual");
    put("/proc/sys/kernel/hostname", "host");
    put("/sys/module/nvidia_peermem/refcnt", "0");
    put("/sys/kernel/iommu_groups/0/type", "identity");
  }

  Model found(std::function<CudaAnswer()> cuda = nullptr) const {
    return discover({.cuda = std::move(cuda)});
  }

  std::string root_;
};

TEST_F(Discovery, FindsTheTreeAndWhatIsInIt) {
  typical();
  const Model model = found();
  EXPECT_EQ(model.host, "host");
  ASSERT_EQ(model.gpus.size(), 1U);
  ASSERT_EQ(model.nics.size(), 2U);
  EXPECT_EQ(summary(model, select(model, rank_per_gpu(model))),
            std::vector<std::string>{"0000:03:00.0 -> mlx5_0 PIX gdr [mlx5_0]"});
  const Nic& nic = model.nics[0];
  EXPECT_EQ(nic.name, "mlx5_0");
  EXPECT_EQ(nic.nets, std::vector<std::string>{"ib0"});
  ASSERT_EQ(nic.ports.size(), 1U);
  EXPECT_EQ(nic.ports[0].state, PortState::active);
  EXPECT_EQ(nic.ports[0].gbits, 200);
  EXPECT_EQ(nic.ports[0].gids, 1);
  const Link& pcie = model.pci[static_cast<std::size_t>(nic.pci)].link;
  EXPECT_LT(pcie.gbytes, pcie_gbytes(pcie.best_gt_per_second, pcie.best_width));
  EXPECT_EQ(model.nics[1].name, "0000:80:00.0");
  EXPECT_TRUE(model.nics[1].no_rdma);
  EXPECT_EQ(model.nics[1].nets, std::vector<std::string>{"eth0"});
  EXPECT_EQ(model.facts.peermem, true);
  EXPECT_EQ(model.facts.iommu, false);
  EXPECT_TRUE(model.notes.empty()) << model.notes.front();
}

TEST_F(Discovery, KnowsWhichMemoryIsWhere) {
  typical();
  const Model model = found();
  ASSERT_EQ(model.numa.size(), 3U);
  EXPECT_EQ(model.numa[1].number, 8);
  EXPECT_EQ(model.numa[1].package, 1);
  EXPECT_EQ(model.numa[0].bytes, 1024U << 10);
  EXPECT_EQ(model.numa[2].memory, MemoryKind::other);
  EXPECT_EQ(model.numa_of_cpus({1}), std::vector<int>{8});
  EXPECT_EQ(path_to_numa(model, 8, model.nics[0]).distance, 40);
}

TEST_F(Discovery, MemoryWithoutProcessorsIsNoPlaceForArenas) {
  EXPECT_TRUE(nodes_with_processors().empty());  // the kernel does not say
  typical();
  // Near to node 8 alone, so that hwloc gives it the processors of that one.
  put("/sys/devices/system/node/node252/distance", "80 20 10");
  EXPECT_EQ(nodes_with_processors(), (std::vector<int>{0, 8}));
  const Model model = found();
  ASSERT_EQ(model.numa.size(), 3U);
  EXPECT_EQ(model.numa[2].memory, MemoryKind::other);
  EXPECT_TRUE(model.numa[2].cpus.empty());
  EXPECT_EQ(model.numa_of_cpus({1}), std::vector<int>{8});
  put("/sys/devices/system/node/has_memory", "0,8");
  EXPECT_TRUE(nodes_with_processors().empty());  // all memory is alike
}

TEST_F(Discovery, SaysWhatHwlocLeavesOut) {
  typical();
  pci("pci10000:00/10000:00:00.0", "0x020700", "0x15b3", 0);
  const Model model = found();
  EXPECT_EQ(model.notes,
            std::vector<std::string>{"10000:00:00.0 is left out: hwloc does not show it"});
}

TEST_F(Discovery, OfAJobGivesARankAGpuWhereNvidiasDriverHasOne) {
  typical();
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(place_rank(Config(), {}).nic, "mlx5_0");
  EXPECT_EQ(place_rank(Config(), {}).gpu, "") << "without its driver it is none";
  put("/proc/driver/nvidia/gpus/0000:03:00.0/information",
      "Model: \t\t A GPU\nGPU UUID: \t GPU-5c89c6a1\nDevice Minor: \t 4");
  EXPECT_EQ(place_rank(Config(), {}).gpu, "") << "a device group keeps the process from it";
  put("/dev/nvidia4", "");
  const RankPlacement both = place_rank(Config(), {});
  EXPECT_EQ(both.gpu, "0000:03:00.0");
  EXPECT_EQ(both.nic, "mlx5_0");
  EXPECT_EQ(both.visible_gpus, std::vector<std::string>{"0000:03:00.0"});
  EXPECT_EQ(place_rank(Config().with(Setting::gpu, "GPU-5c89c6a1"), {}).gpu, "0000:03:00.0");
  EXPECT_EQ(both.reason.find("GPUDirect"), std::string::npos) << "that is for a proof to say";
  ASSERT_EQ(::setenv("CUDA_VISIBLE_DEVICES", "", 1), 0);
  const RankPlacement hidden = place_rank(Config(), {});
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(hidden.gpu, "");
  EXPECT_NE(hidden.gpu_reason.find("hides all"), std::string::npos) << hidden.gpu_reason;
}

TEST_F(Discovery, OfAVirtualMachineForbidsNoPath) {
  typical();
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  put("/proc/driver/nvidia/gpus/0000:03:00.0/information", "Model: \t A GPU");
  const Config near = Config().with(Setting::gdr_level, "LOC");
  ASSERT_EQ(place_rank(near, {}).far_gpus.size(), 1U);
  EXPECT_EQ(place_rank(near, {}).far_gpus.front().nic, "mlx5_0");
  put("/proc/cpuinfo", "flags\t: fpu hypervisor lahf_lm");
  EXPECT_TRUE(place_rank(near, {}).far_gpus.empty()) << "its bridges need not be the host's";
}

TEST_F(Discovery, AJobWithoutRdmaLooksForNoGpu) {
  put("/proc/driver/nvidia/gpus/0000:03:00.0/information", "Model: \t A GPU");
  const RankPlacement placement = place_rank(Config(), {});
  EXPECT_TRUE(placement.gpu.empty() && placement.notes.empty());
  EXPECT_EQ(placement.staging, -1);
}

TEST_F(Discovery, AGpuAtRestCountsWithTheSpeedOfItsLinkUnderLoad) {
  typical();
  const Model model = found();
  const Path path = path_between(model, model.gpus[0], model.nics[0]);
  EXPECT_NEAR(path.gbytes, 15.75, 0.01);  // the NIC's eight lanes
  EXPECT_TRUE(path.second_known);
}

TEST_F(Discovery, WhatThereIsNotIsUnknown) {
  const Model nothing = found();
  EXPECT_TRUE(nothing.pci.empty() && nothing.numa.empty() && nothing.nics.empty());
  EXPECT_FALSE(nothing.facts.peermem.has_value() || nothing.facts.iommu.has_value());
  typical();
  for (const char* file : {"numa_node", "current_link_speed", "max_link_speed", "max_link_width"})
    fs::remove(root_ +
               "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0/" +
               file);
  put("/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/numa_node", "-1");
  const Model model = found();
  const PciNode& node = model.pci[static_cast<std::size_t>(model.nics[0].pci)];
  EXPECT_EQ(node.numa, kNone);
  EXPECT_FALSE(node.link.known());
  EXPECT_EQ(model.numa_of(model.nics[0]), 0);  // as the switch above says
}

TEST_F(Discovery, OneOddDeviceDoesNotSpoilTheReport) {
  typical();
  put("/sys/devices/pci0000:00/0000:00:1c.0/0000:0b:00.0/class", "what");
  link("/sys/class/infiniband/odd", "../../devices/nowhere/infiniband/odd");
  put("/sys/bus/pci/devices/plain", "");
  put("/sys/devices/system/node/node9/cpulist", "x-y");
  const Model model = found();
  EXPECT_EQ(model.notes.size(), 4U);
  const int odd = find_nic(model, "odd");
  ASSERT_NE(odd, kNone);
  EXPECT_FALSE(model.nics[static_cast<std::size_t>(odd)].problem.empty());
  const Selection selection = select(model, rank_per_gpu(model));
  EXPECT_EQ(nic_name(model, selection.choices.at(0).nic), "mlx5_0");
  EXPECT_NE(to_json(model, selection).find("its ports can't be read"), std::string::npos);
}

TEST_F(Discovery, ASoftwareDeviceStandsWhereItsInterfaceDoes) {
  typical();
  put("/sys/devices/virtual/infiniband/rxe0/parent", "eth0");
  put("/sys/devices/virtual/infiniband/rxe0/ports/1/state", "4: ACTIVE");
  put("/sys/devices/virtual/infiniband/rxe0/ports/1/link_layer", "Ethernet");
  link("/sys/class/infiniband/rxe0", "../../devices/virtual/infiniband/rxe0");
  const Model model = found();
  const int rxe = find_nic(model, "rxe0");
  ASSERT_NE(rxe, kNone);
  EXPECT_EQ(model.address_of(model.nics[static_cast<std::size_t>(rxe)])->text(), "0000:80:00.0");
  EXPECT_EQ(model.numa_of(model.nics[static_cast<std::size_t>(rxe)]), 8);
}

TEST_F(Discovery, TheCudaDriverSaysWhichGpusThisProcessMayUse) {
  typical();
  const auto slice = [](int ordinal) {
    return CudaDevice{.ordinal = ordinal,
                      .pci = *PciAddress::parse("0000:03:00.0"),
                      .name = "A GPU MIG 1g",
                      .uuid = "MIG-1",
                      .mig = true,
                      .dma_buf = true};
  };
  const CudaDevice elsewhere{.ordinal = 2, .pci = *PciAddress::parse("0009:03:00.0")};
  const Model model = found([&] {
    return CudaAnswer{.version = "12.4", .devices = {slice(0), slice(1), elsewhere}};
  });
  ASSERT_EQ(model.gpus.size(), 1U);
  EXPECT_EQ(model.gpus[0].cuda_ordinal, 0);
  EXPECT_TRUE(model.gpus[0].mig);
  EXPECT_EQ(find_gpu(model, "MIG-1"), 0);
  EXPECT_EQ(model.facts.cuda, "12.4");
  ASSERT_EQ(model.notes.size(), 1U);
  EXPECT_NE(model.notes[0].find("0009:03:00.0"), std::string::npos);
}

TEST(ThisMachine, IsDescribedWithoutAnyRight) {
  const Model model = discover();
  EXPECT_FALSE(model.facts.cuda.empty());
  EXPECT_NO_THROW(to_json(model, select(model, rank_per_gpu(model))));
}

TEST(ThisMachine, IsTheSameForThreadsThatAskAtOnce) {
  constexpr std::size_t kThreads = 4;
  std::vector<Model> models(kThreads);
  {
    std::vector<std::jthread> threads;
    for (Model& model : models)
      threads.emplace_back([&model] { model = discover({.cuda = nullptr, .nvml = nullptr}); });
  }
  const auto text = [](const Model& model) {
    return to_json(model, select(model, {{.cpus = {0}}}));
  };
  for (const Model& model : models) EXPECT_EQ(text(model), text(models[0]));
}

TEST(Acs, IsReadFromTheExtendedConfiguration) {
  EXPECT_FALSE(acs_redirects(std::string(64, '\0')).has_value());
  std::string config(kConfigBytes, '\0');
  EXPECT_EQ(acs_redirects(config), false);
  const auto put_word = [&](std::size_t at, std::uint32_t value) {
    for (std::size_t i = 0; i < 4; ++i) config[at + i] = static_cast<char>(value >> (8 * i));
  };
  put_word(0x100, 0x14010001);  // another capability, the next at 0x140
  put_word(0x140, 0x0001000d);
  EXPECT_EQ(acs_redirects(config), false);
  put_word(0x144, 0x00040000);  // control: request redirect
  EXPECT_EQ(acs_redirects(config), true);
  put_word(0x140, 0x14010003);  // a chain that leads back to itself
  EXPECT_EQ(acs_redirects(config), false);
}

}  // namespace
}  // namespace weft::topology
