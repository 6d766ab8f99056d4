#include "tests/unit/topology_tool/planted_fault.hpp"

#include <gtest/gtest.h>

#include "topology/doctor/checks.hpp"

namespace weft::tests {

using doctor::Finding;
using doctor::Verdict;

doctor::Finding worst(const doctor::Findings& findings, std::string_view check) {
  Finding found;
  for (const Finding& finding : findings)
    if (finding.check == check && (found.check.empty() || finding.verdict > found.verdict))
      found = finding;
  return found;
}

void expect_found(const Fault& fault) {
  SCOPED_TRACE(fault.name);
  FakeHost fake;
  fault.plant(fake);
  const auto found = worst(doctor::examine(fake.host, fault.ranks), fault.check);
  EXPECT_EQ(found.verdict, fault.verdict) << doctor::name(found.verdict) << ": " << found.says;
  EXPECT_NE(found.says.find(fault.says), std::string::npos) << found.says;
  EXPECT_EQ(found.fix.empty(), fault.verdict < Verdict::warn) << found.fix;
}

}  // namespace weft::tests
