// The queueing disciplines of the kernel's network interfaces.
#pragma once

#include <string>
#include <vector>

namespace weft::doctor {

struct Qdisc {
  std::string interface;
  std::string kind;  ///< "fq_codel"
};

struct QdiscAnswer {
  int error = 0;  ///< errno; 0: `qdiscs` is complete
  std::vector<Qdisc> qdiscs{};
};

/// Asks the kernel, by rtnetlink. Needs no rights. An interface with several queues has several.
QdiscAnswer ask_qdiscs();

}  // namespace weft::doctor
