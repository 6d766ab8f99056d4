#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "tests/unit/topology/machines.hpp"
#include "tests/unit/topology_tool/lines.hpp"
#include "tests/unit/topology_tool/pictured.hpp"
#include "topology/import/import.hpp"
#include "topology/import/xml.hpp"
#include "topology/render/difference.hpp"
#include "topology/render/exports.hpp"
#include "topology/render/outline.hpp"
#include "topology/render/svg.hpp"
#include "topology/render/svg_layout.hpp"
#include "topology/render/text.hpp"
#include "weft/error.hpp"

namespace weft::topology::render {
namespace {

using testing::Test;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// GPU, NIC, class, GPUDirect, NUMA node of host memory, rails: what an export must keep.
std::string answers(const Pictured& machine) {
  std::string text;
  for (const Choice& choice : machine.selection.choices) {
    text += choice.gpu == kNone ? "rank"
                                : machine.model.address_of(machine.view.gpu(choice.gpu))->text();
    text += choice.nic == kNone ? " none" : " " + machine.view.nic(choice.nic).name;
    text += " " + std::string(name(choice.path.path_class)) + (choice.gdr ? " gdr" : "") + " " +
            std::to_string(choice.bounce_numa) + ":";
    for (const int rail : choice.rails) text += " " + machine.view.nic(rail).name;
    text += "\n";
  }
  return text;
}

TEST(Outline, ShowsPortsOfOneSwitchAsOneSwitch) {
  const Model model = two_sockets();
  const Outline machine = outline(model);
  ASSERT_EQ(machine.children.size(), 2U);
  const auto switches = [](const Outline& part) {
    std::size_t found = 0;
    const std::function<void(const Outline&)> look = [&](const Outline& inner) {
      if (inner.part == Part::pci_switch) ++found;
      for (const Outline& child : inner.children) look(child);
    };
    look(part);
    return found;
  };
  EXPECT_EQ(switches(machine.children[0]), 1U);
  EXPECT_EQ(switches(machine.children[1]), 3U);
}

TEST(Texts, HaveColoursOnlyWhereTheyAreWanted) {
  const Pictured machine(two_sockets());
  for (const auto& draw : {as_matrix, as_tree, as_ranking}) {
    EXPECT_FALSE(contains(draw(machine.view, {}), "\033"));
    EXPECT_TRUE(contains(draw(machine.view, {.colour = true}), "\033["));
  }
}

TEST(Tree, ShowsEveryDeviceOnceWithWhatItGets) {
  const Pictured machine(two_sockets());
  const auto text = as_tree(machine.view, {});
  for (const Gpu& gpu : machine.model.gpus) EXPECT_EQ(count(text, "─ " + gpu.name + " "), 1U);
  for (const Nic& nic : machine.model.nics) EXPECT_EQ(count(text, "─ " + nic.name + " "), 1U);
  EXPECT_TRUE(contains(text, "-> mlx5_2 PXB GPUDirect")) << text;
  EXPECT_TRUE(contains(text, "NUMA node 1, processors 4-7")) << text;
}

TEST(Ranking, NamesEveryNicWithAReasonForEachGpuAndNumaNode) {
  const Pictured machine(two_sockets());
  const auto text = as_ranking(machine.view, {});
  const auto places = machine.model.gpus.size() + 2;
  for (const Nic& nic : machine.model.nics) {
    std::size_t found = 0;
    for (const char* place : {"1. ", "2. ", "3. ", "- "})
      found += count(text, place + nic.name + " ");
    EXPECT_EQ(found, places) << nic.name;
  }
  // On each machine the three usable NICs are numbered, and the fourth is not.
  EXPECT_EQ(count(text, "\n  1. "), places);
  EXPECT_EQ(count(text, "\n  3. "), places);
  EXPECT_EQ(count(text, "\n  4. "), 0U);
  EXPECT_EQ(count(text, "\n   - mgmt"), places);
}

TEST(Explanation, TellsWayVerdictAndWhatWasTakenInstead) {
  const Pictured machine(two_sockets());
  const auto text = as_explanation(machine.view, "GPU0", "mlx5_2");
  EXPECT_TRUE(contains(line_of(text, "path"), "SYS")) << text;
  EXPECT_TRUE(contains(line_of(text, "from GPU0"), "0000:13:00.0")) << text;
  EXPECT_TRUE(contains(line_of(text, "GPUDirect"), "SYS is beyond PXB")) << text;
  EXPECT_TRUE(contains(line_of(text, "instead"), "mlx5_0")) << text;
  EXPECT_EQ(as_explanation(machine.view, "mlx5_2", "0000:13:00.0"), text);
  EXPECT_TRUE(contains(as_explanation(machine.view, "GPU2", "mlx5_2"), "verdict    chosen"));
  EXPECT_TRUE(contains(as_explanation(machine.view, "GPU0", "GPU1"), "PIX"));
}

TEST(Explanation, ListsTheDevicesThatExistWhereOneDoesNot) {
  const Pictured machine(two_sockets());
  const auto unknown = message_of([&] { as_explanation(machine.view, "GPU7", "mlx5_0"); });
  EXPECT_TRUE(contains(unknown, "no device is called \"GPU7\"")) << unknown;
  EXPECT_TRUE(contains(unknown, "GPU0 (0000:13:00.0)")) << unknown;
  EXPECT_TRUE(contains(unknown, "mlx5_2")) << unknown;
  EXPECT_FALSE(contains(unknown, "\n"));
  const auto nics = message_of([&] { as_explanation(machine.view, "mlx5_0", "mlx5_1"); });
  EXPECT_TRUE(contains(nics, "is a GPU")) << nics;
}

void expect_same_after_nccl(const Pictured& before) {
  const auto xml = as_nccl_xml(before.view);
  const Pictured after(import_text(xml, "exported"));
  EXPECT_EQ(answers(after), answers(before)) << xml;
}

TEST(NcclXml, GivesTheSameAnswersWhenItIsReadAgain) {
  expect_same_after_nccl(Pictured(two_sockets()));
}

TEST(NcclXml, GivesTheSameAnswersForMachinesThatExist) {
  const auto files = recorded_machines();
  if (files.empty())
    GTEST_SKIP() << "no captures of machines here: set WEFT_TEST_TOPOLOGIES to their folder";
  for (const auto& file : files) {
    SCOPED_TRACE(file);
    expect_same_after_nccl(Pictured(import_file(file)));
  }
}

TEST(NcclXml, GivesTheSameAnswersForMachinesAtRandom) {
  const auto seed = std::random_device{}();
  for (unsigned i = 0; i < 200; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed + i));
    std::mt19937_64 random(seed + i);
    expect_same_after_nccl(Pictured(random_switches(random)));
    if (Test::HasFailure()) return;
  }
}

TEST(NcclXml, KeepsEveryUsableDeviceOfTreesThatNobodyBuilds) {
  const auto seed = std::random_device{}();
  for (unsigned i = 0; i < 100; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed + i));
    std::mt19937_64 random(seed + i);
    const Pictured machine(random_machine(random).build());
    const auto& verdicts = machine.selection.nics;
    const auto usable = std::count_if(verdicts.begin(), verdicts.end(),
                                      [](const NicVerdict& verdict) { return verdict.usable; });
    if (machine.model.gpus.empty() && usable == 0) continue;
    const Model after = import_text(as_nccl_xml(machine.view), "exported");
    EXPECT_EQ(after.gpus.size(), machine.model.gpus.size());
    EXPECT_EQ(static_cast<long>(after.nics.size()), usable);
  }
}

TEST(NcclXml, LeavesOutWhatCannotBeUsed) {
  const Pictured machine(two_sockets());
  const auto xml = as_nccl_xml(machine.view);
  EXPECT_FALSE(contains(xml, "mgmt"));
  EXPECT_TRUE(contains(xml, "speed=\"200000\"")) << xml;
  EXPECT_TRUE(contains(xml, "affinity=\"000000f0\"")) << xml;
}

TEST(Mooncake, PrefersTheRailsOfEachGpuAndListsTheOthers) {
  const Pictured machine(two_sockets());
  const auto matrix = nlohmann::json::parse(as_mooncake(machine.view));
  using Names = std::vector<std::string>;
  EXPECT_EQ(matrix.size(), 5U);
  EXPECT_EQ(matrix["cuda:0"][0].get<Names>(), (Names{"mlx5_0", "mlx5_1"}));
  EXPECT_EQ(matrix["cuda:0"][1].get<Names>(), (Names{"mlx5_2"}));
  EXPECT_EQ(matrix["cuda:2"][0].get<Names>(), (Names{"mlx5_2"}));
  EXPECT_EQ(matrix["cpu:1"][0].get<Names>(), (Names{"mlx5_2"}));
}

TEST(Dot, ClosesWhatItOpensAndQuotesNames) {
  const Pictured machine(two_sockets());
  const auto text = as_dot(machine.view);
  EXPECT_EQ(count(text, "{"), count(text, "}"));
  EXPECT_TRUE(contains(text, "mgmt<&\\\">0")) << text;
  EXPECT_EQ(count(text, "penwidth=3"), machine.model.gpus.size());
}

TEST(Difference, TellsOfWhatOneMachineLacks) {
  const Pictured whole(two_sockets());
  const Pictured same(two_sockets());
  EXPECT_TRUE(difference(whole.view, same.view).alike);

  Model worse = two_sockets();
  for (Nic& nic : worse.nics)
    if (nic.rdma == "mlx5_1") nic.ports.front().state = PortState::down;
  const Pictured broken(std::move(worse));
  const auto found = difference(whole.view, broken.view);
  EXPECT_FALSE(found.alike);
  EXPECT_TRUE(contains(line_of(found.text, "NIC 0000:16:00.0"), "port active | down"))
      << found.text;
  EXPECT_TRUE(
      contains(line_of(found.text, "GPU 0000:14:00.0"), "gets mlx5_1, PIX, GPUDirect | mlx5_0"))
      << found.text;
  EXPECT_FALSE(contains(found.text, "mlx5_2")) << found.text;

  Machine one;
  one.numa(0, 0, {0});
  const auto all = difference(whole.view, Pictured(one.build()).view);
  EXPECT_EQ(count(all.text, ": only in "), 3U + 4U + 1U) << all.text;
}

void expect_tidy(const Box& box) {
  for (const Line& line : box.lines) EXPECT_LE(text_width(line), box.width) << line.text;
  for (const Box& inner : box.inner) {
    EXPECT_GE(inner.x, box.x);
    EXPECT_GE(inner.y, box.y);
    EXPECT_LE(inner.x + inner.width, box.x + box.width + 0.1);
    EXPECT_LE(inner.y + inner.height, box.y + box.height + 0.1);
    for (const Box& other : box.inner) {
      if (&other == &inner) break;
      const bool apart = inner.x >= other.x + other.width || other.x >= inner.x + inner.width ||
                         inner.y >= other.y + other.height || other.y >= inner.y + inner.height;
      EXPECT_TRUE(apart) << "two boxes overlap";
    }
    expect_tidy(inner);
  }
}

TEST(Svg, KeepsTextInItsBoxAndBoxesApart) {
  expect_tidy(lay_out(Pictured(two_sockets()).view));
  for (const auto& file : recorded_machines())
    expect_tidy(lay_out(Pictured(import_file(file)).view));
  const auto seed = std::random_device{}();
  for (unsigned i = 0; i < 50; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed + i));
    std::mt19937_64 random(seed + i);
    expect_tidy(lay_out(Pictured(random_machine(random).build()).view));
  }
}

/// All text in an element.
std::string all_text(const XmlElement& element) {
  std::string text = element.text + "\n";
  for (const XmlElement& child : element.children) text += all_text(child);
  return text;
}

TEST(Svg, IsWellFormedAndNamesEveryDevice) {
  const Pictured machine(two_sockets());
  for (const Theme theme : {Theme::automatic, Theme::light, Theme::dark}) {
    const auto svg = as_svg(machine.view, theme);
    const auto text = all_text(parse_xml(svg, "picture"));
    for (const Gpu& gpu : machine.model.gpus) EXPECT_TRUE(contains(text, gpu.name));
    for (const Nic& nic : machine.model.nics) EXPECT_TRUE(contains(text, nic.name));
    EXPECT_EQ(count(svg, "class=\"rail\" d=\"M"), machine.model.gpus.size() + 1);  // and the legend
    EXPECT_EQ(contains(svg, "prefers-color-scheme"), theme == Theme::automatic);
  }
  EXPECT_NE(as_svg(machine.view, Theme::light), as_svg(machine.view, Theme::dark));
}

TEST(Svg, TellsWhyANicIsNotUsed) {
  const Pictured machine(two_sockets());
  const auto svg = as_svg(machine.view, Theme::light);
  EXPECT_TRUE(contains(svg, ">not used: port 1 is down</text>")) << svg;
}

/// The first value of an attribute, or of what stands like one, after `from`.
double number_after(const std::string& svg, const std::string& from, const std::string& name) {
  const auto at = svg.find(name, svg.find(from));
  return at == svg.npos ? -1 : std::stod(svg.substr(at + name.size()));
}

TEST(Svg, BeginsEverythingBelowTheBeginningOfItsTitle) {
  Model model = two_sockets();
  model.packages = {{.number = 0, .model = std::string(200, 'o')},
                    {.number = 1, .model = std::string(100, 'o')}};
  const Pictured machine(std::move(model));
  const auto svg = as_svg(machine.view, Theme::light);
  const double title = number_after(svg, "<text class=\"title\"", "x=\"");
  EXPECT_GT(title, 0);
  EXPECT_EQ(number_after(svg, "<text class=\"detail\"", "x=\""), title);
  EXPECT_EQ(number_after(svg, "<g transform", "translate("), title);
  const Box picture = lay_out(machine.view);
  const Box& wide = picture.inner.front();
  const Box& narrow = picture.inner.back();
  ASSERT_GT(narrow.y, wide.y);
  EXPECT_EQ(wide.x, 0);
  EXPECT_EQ(narrow.x, 0);
  EXPECT_EQ(wide.inner.front().x, narrow.inner.front().x);
}

TEST(Renderers, DrawMachinesWithoutGpusNicsOrAnything) {
  Machine bare;
  bare.numa(0, 0, {0, 1});
  for (const Model& model : {Model{}, bare.build()}) {
    const Pictured machine(model);
    for (const auto& draw : {as_matrix, as_tree, as_ranking}) EXPECT_NE(draw(machine.view, {}), "");
    EXPECT_NO_THROW(parse_xml(as_svg(machine.view, Theme::automatic), "picture"));
    EXPECT_NO_THROW(parse_xml(as_nccl_xml(machine.view), "exported"));
    EXPECT_TRUE(nlohmann::json::parse(as_mooncake(machine.view)).is_object());
    EXPECT_TRUE(contains(as_dot(machine.view), "digraph"));
    EXPECT_TRUE(difference(machine.view, machine.view).alike);
    EXPECT_TRUE(contains(message_of([&] { as_explanation(machine.view, "GPU0", "x"); }),
                         "neither GPUs nor NICs"));
  }
}

}  // namespace
}  // namespace weft::topology::render
