// The room's bodies arrive piece by piece; until then these refuse.
#include "topology/discover.hpp"
#include "topology/import.hpp"
#include "topology/json.hpp"
#include "topology/select.hpp"
#include "weft/error.hpp"

namespace weft::topology {
namespace {
[[noreturn]] void refuse() {
  throw Error(ErrorDetail{.operation = "topology", .message = "is being built"});
}
}  // namespace

double pcie_gbytes(double, int) noexcept { return 0; }
std::string_view name(PortState) noexcept { return ""; }
std::string_view name(LinkLayer) noexcept { return ""; }
std::string_view name(Origin) noexcept { return ""; }
std::optional<PciAddress> Model::address_of(const Gpu&) const { refuse(); }
std::optional<PciAddress> Model::address_of(const Nic&) const { refuse(); }
int Model::numa_of(int) const { refuse(); }
int Model::numa_of(const Nic&) const { refuse(); }
int Model::package_of(int) const { refuse(); }
std::vector<int> Model::numa_of_cpus(const std::vector<int>&) const { refuse(); }
void finish(Model&) { refuse(); }
int find_gpu(const Model&, std::string_view) { refuse(); }
int find_nic(const Model&, std::string_view) { refuse(); }
std::string_view name(PathClass) noexcept { return ""; }
std::string_view meaning(PathClass) noexcept { return ""; }
std::optional<PathClass> parse_path_class(std::string_view) { refuse(); }
Path path_between(const Model&, int, int) { refuse(); }
Path path_between(const Model&, const Gpu&, const Nic&) { refuse(); }
Path path_between(const Model&, const Gpu&, const Gpu&) { refuse(); }
Path path_to_numa(const Model&, int, const Nic&) { refuse(); }
Path path_to_numa(const Model&, int, const Gpu&) { refuse(); }
std::vector<std::pair<std::string, std::string>> parse_gpu_nic(const std::string&) { refuse(); }
void set_gdr_level(Policy&, const std::string&) { refuse(); }
std::vector<LocalRank> rank_per_gpu(const Model&) { refuse(); }
std::vector<LocalRank> spread_ranks(const Model&, int) { refuse(); }
Selection select(const Model&, const std::vector<LocalRank>&, const Policy&) { refuse(); }
Model import_file(const std::string&) { refuse(); }
Model import_text(std::string_view, const std::string&) { refuse(); }
CudaAnswer ask_cuda_driver() { refuse(); }
Model discover(const DiscoverOptions&) { refuse(); }
std::string to_json(const Model&, const Selection&) { refuse(); }
std::string ranks_to_json(const Model&, const Selection&) { refuse(); }

}  // namespace weft::topology
