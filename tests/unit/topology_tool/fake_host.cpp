#include "tests/unit/topology_tool/fake_host.hpp"

#include <unistd.h>

#include <cstdlib>
#include <tuple>
#include <utility>

namespace weft::tests {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
const char* const kPort = "/sys/class/infiniband/mlx5_0/ports/1/";

/// In memory where possible: a machine is dozens of files, and a test makes dozens of machines.
fs::path fastest_folder() {
  const fs::path memory = "/dev/shm";
  return ::access(memory.c_str(), W_OK) == 0 ? memory : fs::temp_directory_path();
}

/// The buses below a bridge, which hwloc builds its tree from: those of FakeHost's switch.
std::pair<char, char> buses_below(const std::string& bridge) {
  if (bridge == "0000:00:01.0") return {1, 5};
  if (bridge == "0000:01:00.0") return {2, 5};
  if (bridge == "0000:02:00.0") return {3, 3};
  return bridge == "0000:02:01.0" ? std::pair<char, char>{4, 4} : std::pair<char, char>{5, 5};
}

}  // namespace

void FakeHost::link(const std::string& to, const std::string& from) {
  const auto place = folder_.path() / relative(from);
  fs::create_directories(place.parent_path());
  fs::create_symlink(fs::relative(folder_.path() / relative(to), place.parent_path()), place);
}

void FakeHost::add_pci(const std::string& address, const fs::path& above, const std::string& kind,
                       const std::string& vendor) {
  pci_[address] = above / address;
  write_pci(address, "class", kind + "\n");
  write_pci(address, "vendor", vendor + "\n");
  for (const char* which : {"current", "max"}) {
    write_pci(address, std::string(which) + "_link_speed", "16.0 GT/s PCIe\n");
    write_pci(address, std::string(which) + "_link_width", "16\n");
  }
  write_pci(address, "local_cpus", "1\n");
  link("/" + pci_[address].string(), "/sys/bus/pci/devices/" + address);
}

void FakeHost::write_config(const std::string& address, bool redirects, std::size_t bytes) {
  std::string space(bytes, '\0');
  space[0x0e] = 1;
  std::tie(space[0x19], space[0x1a]) = buses_below(address);
  if (bytes > 0x200) {
    // Advanced error reporting at 0x100 leads to ACS at 0x148.
    const auto put = [&](std::size_t at, unsigned word) {
      space[at] = static_cast<char>(word & 0xff);
      space[at + 1] = static_cast<char>(word >> 8);
    };
    put(0x100, 0x0001);
    put(0x102, 0x1481);
    put(0x148, 0x000d);
    put(0x14a, 0x0001);
    put(0x14e, redirects ? 0x001d : 0x0001);
  }
  write_pci(address, "config", space);
}

void FakeHost::add_gpu_beside() {
  const fs::path switch_top = pci_.at("0000:01:00.0");
  add_pci("0000:02:02.0", switch_top, "0x060400", "0x1000");
  add_pci("0000:05:00.0", switch_top / "0000:02:02.0", "0x030200", "0x10de");
  write_config("0000:02:02.0", false);
  host.cpus = 4;
}

void FakeHost::add_port_that_is_down() {
  const std::string port = "/sys/class/infiniband/mlx5_0/ports/2/";
  write(port + "state", "1: DOWN\n");
  write(port + "phys_state", "3: Disabled\n");
  write(port + "link_layer", "Ethernet\n");
  write(port + "rate", "10 Gb/sec (1X QDR)\n");
}

void FakeHost::add_software_interface(const std::string& name, const std::string& qdisc) {
  const std::string folder = "/sys/class/net/" + name + "/";
  write(folder + "type", "1\n");
  write(folder + "operstate", "up\n");
  write(folder + "speed", "10000\n");
  write(folder + "mtu", "1500\n");
  qdiscs.qdiscs.push_back({name, qdisc});
}

FakeHost::FakeHost() : folder_(fastest_folder()) {
  // No other thread runs in this program.
  ::setenv("HWLOC_FSROOT", folder_.path().c_str(), 1);
  write("/sys/devices/system/cpu/cpu0/topology/core_siblings", "1\n");
  const fs::path root_port = "sys/devices/pci0000:00/0000:00:01.0";
  const fs::path switch_top = root_port / "0000:01:00.0";
  add_pci("0000:00:01.0", "sys/devices/pci0000:00", "0x060400", "0x8086");
  add_pci("0000:01:00.0", root_port, "0x060400", "0x1000");
  for (const char* bridge : {"0000:00:01.0", "0000:01:00.0"}) write_config(bridge, false);
  for (const char* port : {"0000:02:00.0", kNicPort}) {
    add_pci(port, switch_top, "0x060400", "0x1000");
    write_config(port, false);
  }
  add_pci(kGpu, switch_top / "0000:02:00.0", "0x030200", "0x10de");
  add_pci(kNic, switch_top / kNicPort, "0x020000", "0x15b3");

  const auto rdma = "/" + (pci_[kNic] / "infiniband/mlx5_0").string();
  link("/" + pci_[kNic].string(), rdma + "/device");
  link(rdma, "/sys/class/infiniband/mlx5_0");
  link("/sys/bus/pci/drivers/mlx5_core", "/" + (pci_[kNic] / "driver").string());
  write("/sys/bus/pci/drivers/mlx5_core/bind", "");
  write("/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
  const std::string port = kPort;
  write(port + "state", "4: ACTIVE\n");
  write(port + "phys_state", "5: LinkUp\n");
  write(port + "link_layer", "Ethernet\n");
  write(port + "rate", "200 Gb/sec (4X HDR)\n");
  write(port + "gids/0", "fe80:0000:0000:0000:0e42:a1ff:fe00:0001\n");
  write(port + "gids/1", "fe80:0000:0000:0000:0e42:a1ff:fe00:0001\n");
  write(port + "gids/2", "0000:0000:0000:0000:0000:ffff:0a09:000a\n");
  write(port + "gids/3", "0000:0000:0000:0000:0000:ffff:0a09:000a\n");
  write(port + "gids/4", "0000:0000:0000:0000:0000:0000:0000:0000\n");
  for (const char* index : {"0", "2"}) write(port + "gid_attrs/types/" + index, "IB/RoCE v1\n");
  for (const char* index : {"1", "3"}) write(port + "gid_attrs/types/" + index, "RoCE v2\n");
  for (const char* index : {"0", "1", "2", "3"}) write(port + "gid_attrs/ndevs/" + index, "ens1\n");
  link("/" + pci_[kNic].string(), "/sys/class/net/ens1/device");
  write("/sys/class/net/ens1/type", "1\n");
  write("/sys/class/net/ens1/operstate", "up\n");
  write("/sys/class/net/ens1/speed", "200000\n");
  write("/sys/class/net/ens1/mtu", "9000\n");
  write("/proc/sys/net/ipv4/tcp_congestion_control", "cubic\n");
  write("/proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic bbr\n");
  write("/proc/sys/net/ipv4/tcp_allowed_congestion_control", "reno cubic\n");
  write("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t33554432\n");
  write("/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t33554432\n");
  write("/proc/sys/net/ipv4/tcp_moderate_rcvbuf", "1\n");
  write("/proc/sys/net/core/default_qdisc", "fq_codel\n");

  write("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
        "always within_size [advise] never deny force\n");
  write("/proc/meminfo",
        "MemTotal: 67108864 kB\nMemAvailable: 60000000 kB\nHugePages_Free: 0\n"
        "Hugepagesize: 2048 kB\n");
  write("/proc/cmdline", "quiet\n");
  write("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64\n");
  write("/etc/libibverbs.d/mlx5.driver", "driver mlx5\n");
  write("/usr/bin/srun", "");
  write("/usr/lib/x86_64-linux-gnu/slurm-wlm/mpi_pmix_v4.so", "");
  write("/etc/slurm/slurm.conf", "ClusterName=c\nMpiDefault=pmix # of all\n");

  host.root = folder_.path();
  host.kernel = "6.1.0-18-amd64";
  host.cpus = 4;
  host.program_path = "/usr/local/bin:/usr/bin";
  host.try_open = [this](const std::string& file) {
    const auto found = refused_.find(file);
    return found == refused_.end() ? 0 : found->second;
  };
  host.room = [](const std::string&) { return doctor::Room{32 * kGiB, 31 * kGiB}; };
  host.try_memfd = [] { return 0; };
  host.library = [this](const std::string& file) {
    return lost_.contains(file) ? doctor::LibraryAnswer{false, file + ": no such file"}
                                : doctor::LibraryAnswer{true, ""};
  };
  host.qdiscs = [this] { return qdiscs; };
  host.cuda = [] { return topology::CudaAnswer{"12.4", "", std::vector<topology::CudaDevice>(1)}; };
}

}  // namespace weft::tests
