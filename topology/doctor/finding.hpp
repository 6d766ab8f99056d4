// One finding of the doctor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::doctor {

/// Ordered from harmless to severe.
enum class Verdict : std::uint8_t {
  not_applicable,  ///< the host has no such hardware, or this user may not read its state
  ok,
  warn,  ///< jobs run, but slower or with less than the machine has
  fail   ///< jobs of some kind cannot run until the cause is fixed
};

/// "ok", "warn", "fail", "not applicable"
std::string_view name(Verdict verdict) noexcept;

struct Finding {
  Verdict verdict = Verdict::not_applicable;
  std::string check{};    ///< "memlock"; the same in every version of weft
  std::string subject{};  ///< "mlx5_0:1", a PCI address; empty: the host
  std::string says{};     ///< the observation
  std::string fix{};      ///< the remedy; empty unless warn or fail
};
using Findings = std::vector<Finding>;

/// 0: no warning and no failure; 1: at least one warning; 3: at least one failure. (2 is for
/// unusable arguments.)
int exit_code(std::span<const Finding> findings) noexcept;

}  // namespace weft::doctor
