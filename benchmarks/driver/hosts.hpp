// Where the two ranks of a run are: on this host, or, in tests/hosts/hosts, on two.
#pragma once

#include <string>
#include <vector>

namespace weft::bench {

/// The flags by which mpirun spreads ranks over the hosts; none: all are on this one.
std::vector<std::string> flags_for_hosts(int ranks);
/// The command, run on the host that rank 1 is on.
std::vector<std::string> on_second_host(std::vector<std::string> words);
std::string second_host_address();

}  // namespace weft::bench
