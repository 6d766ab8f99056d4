// Faults that tests plant in a machine, and what the doctor is to say of them.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "tests/unit/topology_tool/fake_host.hpp"
#include "topology/doctor/finding.hpp"

namespace weft::tests {

struct Fault {
  const char* name;
  const char* check;
  doctor::Verdict verdict;
  const char* says;  ///< a part of the line
  std::function<void(FakeHost&)> plant;
  std::optional<int> ranks = std::nullopt;
};

/// The worst line of a check.
doctor::Finding worst(const doctor::Findings& findings, std::string_view check);

/// Plants the fault in a machine of its own, and expects the line, with a fix if it is a warning or
/// worse.
void expect_found(const Fault& fault);

}  // namespace weft::tests
