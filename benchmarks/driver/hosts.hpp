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

/// The congestion control of TCP: that of the hosts ("host1 reno, host2 bbr" if they differ), or of
/// this machine if WEFT_FABRIC is tcp; empty if ranks don't use TCP.
std::string congestion_control();

}  // namespace weft::bench
