// weft-tune: measures, as the ranks of a job, the costs of links and processors for collectives,
// and writes the file from which other jobs choose algorithms.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <string>

#include "base/os/named_file.hpp"
#include "p2p/transport/capabilities.hpp"
#include "runtime/tool/command_line.hpp"
#include "runtime/tool/tune/measure.hpp"
#include "weft/collective.hpp"
#include "weft/world.hpp"

namespace weft {
namespace {

/// For each fabric, the first rank that rank 0 reaches over it; the same on all ranks.
std::map<p2p::FabricKind, int> partners(World& world, Collectives& all) {
  const Tensor fabrics = world.allocate(DType::u8, {world.size()});
  if (world.rank() == 0)
    for (const PathReport& path : world.report().paths)
      fabrics.as<std::uint8_t>()[static_cast<std::size_t>(path.peer)] =
          static_cast<std::uint8_t>(p2p::fabric_kind(path.fabric).value_or(p2p::FabricKind::shm));
  all.run(broadcast(fabrics, 0)).or_throw();
  std::map<p2p::FabricKind, int> first;
  for (int rank = 1; rank < world.size(); ++rank)
    first.emplace(
        static_cast<p2p::FabricKind>(fabrics.as<std::uint8_t>()[static_cast<std::size_t>(rank)]),
        rank);
  return first;
}

int write_table(const std::string& file) {
  World world = World::join();
  if (world.size() < 2) {
    std::fputs("weft-tune: needs two ranks or more: mpirun -n 2 --host HOST1,HOST2 weft-tune\n",
               stderr);
    return 2;
  }
  {
    Collectives all = Collectives::open(world);
    Messages messages(world);
    detail::Costs costs;
    for (const auto& [fabric, partner] : partners(world, all)) {
      detail::LinkCost& link = costs.of(fabric);
      if (world.rank() == 0) link = tune::measure_link(world, messages, partner);
      if (world.rank() == partner) (void)tune::measure_link(world, messages, 0);
      all.run(barrier()).or_throw();
    }
    if (world.rank() == 0) {
      costs.combine = tune::measure_sum();
      const std::string text = write_costs(costs);
      if (!file.empty()) {
        os::write_output(file, text, "weft-tune");
      } else if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
        std::fprintf(stderr, "weft-tune: stdout can't be written; name a file with -o\n");
        return 1;
      }
    }
  }
  world.leave().or_throw();
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  CLI::App app{
      "Measures the costs of links and processors for collectives. Run as the ranks of a job: "
      "mpirun "
      "-n 2 --host HOST1,HOST2 weft-tune -o FILE. Other jobs read the file with "
      "WEFT_COLL_COSTS=FILE. A fabric that reaches none of these ranks keeps its default costs.",
      "weft-tune"};
  app.set_version_flag("--version", "weft " WEFT_VERSION);
  std::string file;
  app.add_option("-o,--output", file, "output file; without it, the costs are printed");
  try {
    app.parse(argc, argv);
    return weft::write_table(file);
  } catch (const CLI::ParseError& error) {
    return weft::tool::end_parse(app, error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft-tune: %s\n", error.what());
    return 1;
  }
}
