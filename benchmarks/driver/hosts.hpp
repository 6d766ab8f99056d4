// The hosts of a run's two ranks: this one, or two as set up by tests/hosts/hosts.
#pragma once

#include <string>
#include <vector>

namespace weft::bench {

/// mpirun flags that spread ranks over the hosts; empty if all ranks run on this host.
std::vector<std::string> flags_for_hosts(int ranks);
/// The command prefixed so that it runs on rank 1's host.
std::vector<std::string> on_second_host(std::vector<std::string> words);
std::string second_host_address();

}  // namespace weft::bench
