// The import of topology files, and the errors for wrong files.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/errors.hpp"
#include "tests/unit/topology/machines.hpp"
#include "tests/unit/topology/samples.hpp"
#include "topology/import/import.hpp"
#include "topology/json/json.hpp"
#include "weft/error.hpp"

namespace weft::topology {
namespace {

using Lines = std::vector<std::string>;

Lines choose(const Model& model) { return summary(model, select(model, rank_per_gpu(model))); }

/// The message; "accepted" where there is none.
std::string refusal(const std::string& text) {
  return weft::tests::refusal_of(Code::bad_argument, [&] { import_text(text, "file"); });
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

#define EXPECT_SAYS(text, words)                            \
  do {                                                      \
    const std::string said = refusal(text);                 \
    EXPECT_NE(said.find(words), std::string::npos) << said; \
  } while (false)

TEST(Hwloc, ReadsDevicesWhereverTheyHang) {
  const Model model = import_text(kHwlocSample, "file");
  EXPECT_EQ(model.host, "sample");
  EXPECT_EQ(choose(model), (Lines{"0000:03:00.0 -> mlx5_0 PIX gdr [mlx5_0]",
                                  "0001:01:00.0 -> mlx5_0 SYS [mlx5_0]"}));
  ASSERT_EQ(model.gpus.size(), 2U);  // not the console's chip, although it has a "card0"
  EXPECT_EQ(model.gpus[0].os_name, "cuda0");
  EXPECT_EQ(model.numa_of(model.gpus[0]), 4);
  EXPECT_EQ(model.numa_of(model.gpus[1]), 12);
  EXPECT_EQ(model.package_of(12), 1);
  EXPECT_EQ(model.numa.at(2).memory, MemoryKind::gpu);
  EXPECT_EQ(path_between(model, model.gpus[0], model.gpus[1]).path_class, PathClass::NVL);
  ASSERT_EQ(model.nics.size(), 2U);
  EXPECT_EQ(model.nics[0].ports.at(0).state, PortState::active);
  EXPECT_EQ(model.nics[0].ports.at(0).layer, LinkLayer::infiniband);
  EXPECT_EQ(model.nics[0].ports.at(1).state, PortState::down);
}

TEST(Hwloc, KindsOfDevicesAreBitsSinceVersionThree) {
  std::string text = replaced(kHwlocSample, "version=\"2.0\"", "version=\"3.0\"");
  text = replaced(text, "osdev_type=\"3\"", "osdev_type=\"32\"");
  text = replaced(text, "osdev_type=\"5\"", "osdev_type=\"8\"");
  const Model model = import_text(text, "file");
  EXPECT_EQ(model.nics.at(0).rdma, "mlx5_0");
  EXPECT_EQ(model.gpus.at(0).os_name, "cuda0");
}

TEST(Nccl, ReadsNetsSwitchesAndLinks) {
  const Model model = import_text(kNcclSample, "file");
  EXPECT_EQ(choose(model), (Lines{"0000:02:00.0 -> mlx5_1 PIX gdr [mlx5_1]",
                                  "0000:82:00.0 -> mlx5_0 P2C [mlx5_0]"}));
  EXPECT_EQ(model.gpus.at(1).c2c_gbytes, 450);
  EXPECT_EQ(path_between(model, model.gpus[0], model.gpus[1]).path_class, PathClass::NVL);
  EXPECT_EQ(model.nics.at(0).ports.size(), 2U);
  // A NIC without <net>, beside NICs that have one, is no RDMA device.
  const int plain = find_nic(model, "0000:05:00.0");
  EXPECT_TRUE(model.nics.at(static_cast<std::size_t>(plain)).no_rdma);
}

TEST(Nccl, NonsensicalLinksAreUnknown) {
  for (const char* speed : {"0", "", "Unknown", "1e300 GT/s", "-16 GT/s", "nan", "15 GT/s"}) {
    const Model model =
        import_text(replaced(kNcclSample, "\"16 GT/s\"", "\"" + std::string(speed) + "\""), "file");
    EXPECT_FALSE(model.pci.at(1).link.known()) << speed;
  }
}

TEST(Json, CarriesAllThatAModelHolds) {
  const Model model = import_text(kHwlocSample, "file");
  const std::string once = to_json(model, select(model, rank_per_gpu(model)));
  const Model again = import_text(once, "file");
  std::string twice = to_json(again, select(again, rank_per_gpu(again)));
  // Only the model's source has changed.
  twice = replaced(twice, "\"source\": \"weft\"", "\"source\": \"hwloc-xml\"");
  twice = replaced(twice, "\"origin\": \"weft\"", "\"origin\": \"hwloc-xml\"");
  EXPECT_EQ(once, twice);
}

TEST(Wrong, FilesAreRefusedWithTheLine) {
  EXPECT_SAYS("", "file, line 1: is empty");
  EXPECT_SAYS("hello", "file, line 1: not well-formed XML");
  EXPECT_SAYS("<topology>\n<object type=\"Machine\">\n", "file, line 3: not well-formed XML");
  EXPECT_SAYS("<topology>\n<object>\n</topology>",
              "file, line 3: not well-formed XML: mismatched tag");
  EXPECT_SAYS("<html/>", "line 1: <html> is neither");
  EXPECT_SAYS("<system version=\"1\"/>", "describes no PCI device");
  EXPECT_SAYS("{\n\"schema\": }", "file, line 2: not well-formed JSON");
  EXPECT_SAYS("{\n\n", "file, line 3: not well-formed JSON");
  EXPECT_SAYS("[1]", "line 1: here must be an object");
  EXPECT_SAYS("{}", "\"schema\" is missing");
  EXPECT_SAYS("{\"schema\": \"weft-topo/9\"}", "reads weft-topo/1");
  EXPECT_SAYS("{\"schema\": \"weft-topo/1\"}", "\"machine\" is missing");
  EXPECT_SAYS("{\"a\":1,\n\"a\":2}", "line 2: the key \"a\" comes twice");
}

TEST(Wrong, HwlocObjectsAreRefusedWithTheLine) {
  EXPECT_SAYS(replaced(kHwlocSample, "pci_busid=\"0000:03:00.0\"", "pci_busid=\"3\""),
              "line 13: pci_busid=\"3\" is no PCI address");
  EXPECT_SAYS(replaced(kHwlocSample, "pci_busid=\"0000:03:00.0\"", ""),
              "line 13: <object> has no pci_busid");
  EXPECT_SAYS(replaced(kHwlocSample, "0001:01:00.0", "0000:03:00.0"),
              "0000:03:00.0 was there before, in line 13");
  EXPECT_SAYS(replaced(kHwlocSample, "os_index=\"12\"", "os_index=\"4\""),
              "NUMA node 4 was there before");
  EXPECT_SAYS(replaced(kHwlocSample, "nodeset=\"0x1010\"", "nodeset=\"all\""),
              "line 4: nodeset=\"all\" is no bitmap");
  EXPECT_SAYS(replaced(kHwlocSample, "osdev_type=\"5\"", "osdev_type=\"gpu\""), "is no type");
  EXPECT_SAYS(replaced(kHwlocSample, "0 40000 40000 0", "0 40000"), "not a matrix");
}

TEST(Wrong, NcclElementsAreRefusedWithTheLine) {
  EXPECT_SAYS(replaced(kNcclSample, "busid=\"0000:02:00.0\"", "busid=\"0000:01:00.0\""),
              "line 4: 0000:01:00.0 lies inside itself (line 3)");
  EXPECT_SAYS(replaced(kNcclSample, "busid=\"0000:82:00.0\"", "busid=\"0000:02:00.0\""),
              "0000:02:00.0 was there before, in line 4");
  EXPECT_SAYS(replaced(kNcclSample, "numaid=\"0\"", "numaid=\"zero\""),
              "line 2: numaid=\"zero\" is no number");
  EXPECT_SAYS(replaced(kNcclSample, "0x030200", "gpu"), "line 4: class=\"gpu\" is no PCI class");
  EXPECT_SAYS(replaced(kNcclSample, "port=\"2\"", "port=\"1\""),
              "port 1 of mlx5_1 was there before");
}

TEST(Wrong, JsonMembersAreRefusedWithTheLine) {
  const Model model = import_text(kNcclSample, "file");
  const std::string json = to_json(model, select(model, rank_per_gpu(model)));
  EXPECT_SAYS(replaced(json, "\"parent\": 0", "\"parent\": 7"),
              "which must be an entry of \"pci\" before this one");
  EXPECT_SAYS(replaced(json, "\"parent\": 0", "\"parent\": -1"),
              "\"parent\" must be a whole number");
  EXPECT_SAYS(replaced(json, "\"parent\": 0", "\"parent\": 1e99"),
              "\"parent\" must be a whole number");
  EXPECT_SAYS(replaced(json, "\"kind\": \"switch\"", "\"kind\": \"pipe\""),
              "is \"pipe\", which this version");
  EXPECT_SAYS(replaced(json, "\"address\": \"0000:01:00.0\"", "\"address\": 3"),
              "\"address\" must be text");
  EXPECT_SAYS(replaced(json, "\"cpus\": \"0-1\"", "\"cpus\": \"1-0\""),
              "\"cpus\" must list processors");
}

TEST(Wrong, HostileFilesAreRefused) {
  EXPECT_SAYS(
      "<!DOCTYPE a [<!ENTITY b \"bbbb\">\n<!ENTITY c \"&b;&b;\">]>\n<topology>&c;</topology>",
      "line 1: declares an entity");
  EXPECT_SAYS("<!DOCTYPE a [\n<!ENTITY b SYSTEM \"file:///etc/passwd\">]><topology>&b;</topology>",
              "line 2: declares an entity");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<system>";
  EXPECT_SAYS(deep, "nested too deeply");
  EXPECT_SAYS(std::string(100'000, '['), "nested too deeply");
  std::string wide = "<system>";
  for (int i = 0; i < 500'000; ++i) wide += "<cpu/>";
  EXPECT_SAYS(wide + "</system>", "too many elements");
  EXPECT_SAYS(std::string((32UL << 20) + 1, ' '), "too large");
  std::string gpus = "<system><cpu>";
  for (int i = 0; i < 600; ++i)
    gpus += "<pci busid=\"" + PciAddress{.domain = static_cast<std::uint32_t>(i)}.text() +
            "\" class=\"0x030200\"/>";
  EXPECT_SAYS(gpus + "</cpu></system>", "describes 600 GPUs");
}

TEST(Wrong, APathThatCantBeReadSaysWhy) {
  for (const char* path : {"/nonexistent/machine.xml", "/"}) {
    try {
      import_file(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::system);
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace weft::topology
