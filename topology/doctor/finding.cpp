#include "topology/doctor/finding.hpp"

#include <algorithm>

namespace weft::doctor {

std::string_view name(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::not_applicable:
      return "not applicable";
    case Verdict::ok:
      return "ok";
    case Verdict::warn:
      return "warn";
    case Verdict::fail:
      return "fail";
  }
  return "unknown";
}

int exit_code(std::span<const Finding> findings) noexcept {
  auto worst = Verdict::ok;
  for (const Finding& finding : findings) worst = std::max(worst, finding.verdict);
  if (worst == Verdict::fail) return 3;
  return worst == Verdict::warn ? 1 : 0;
}

}  // namespace weft::doctor
