// A machine for the doctor that is healthy until a test breaks it: one GPU and one RoCE NIC below
// one PCI switch, Slurm, a CUDA driver.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "tests/unit/base/temp_folder.hpp"
#include "topology/doctor/host.hpp"

namespace weft::tests {

class FakeHost {
 public:
  static constexpr const char* kGpu = "0000:03:00.0";
  static constexpr const char* kNic = "0000:04:00.0";
  /// The port of the switch that leads to the NIC.
  static constexpr const char* kNicPort = "0000:02:01.0";

  FakeHost();
  ~FakeHost() { ::unsetenv("HWLOC_FSROOT"); }
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;

  doctor::Host host;
  /// The answer of the kernel, as of a NIC with two queues.
  doctor::QdiscAnswer qdiscs{
      .qdiscs = {{"lo", "noqueue"}, {"ens1", "mq"}, {"ens1", "fq_codel"}, {"ens1", "fq_codel"}}};

  /// Writes a file of the machine; `file` is its path on a real machine.
  void write(const std::string& file, const std::string& text) {
    folder_.write(relative(file), text);
  }
  void remove(const std::string& file) {
    std::filesystem::remove_all(folder_.path() / relative(file));
  }
  /// Writes a file of a PCI function.
  void write_pci(const std::string& address, const std::string& file, const std::string& text) {
    folder_.write(pci_.at(address) / file, text);
  }
  void remove_pci(const std::string& address, const std::string& file) {
    std::filesystem::remove_all(folder_.path() / pci_.at(address) / file);
  }
  /// Takes the RDMA device away, and leaves the NIC.
  void remove_rdma() {
    remove("/sys/class/infiniband");
    remove("/sys/class/infiniband_verbs");
  }
  /// A second port, which is down.
  void add_port_that_is_down();
  /// Makes opening `file` fail with errno `error`.
  void refuse(const std::string& file, int error) { refused_[file] = error; }
  void lose_library(const std::string& file) { lost_[file] = true; }
  /// Writes a PCI configuration of which users other than root see `bytes` bytes.
  void write_config(const std::string& address, bool redirects, std::size_t bytes = 4096);
  void add_gpu_beside();
  /// An interface of software that is up, with one queueing discipline.
  void add_software_interface(const std::string& name, const std::string& qdisc);

 private:
  static std::filesystem::path relative(const std::filesystem::path& file) {
    return file.relative_path();
  }
  void link(const std::string& to, const std::string& from);
  void add_pci(const std::string& address, const std::filesystem::path& above,
               const std::string& kind, const std::string& vendor);

  TempFolder folder_;
  std::map<std::string, std::filesystem::path> pci_;
  std::map<std::string, int> refused_;
  std::map<std::string, bool> lost_;
};

}  // namespace weft::tests
