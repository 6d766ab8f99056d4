// What the doctor says of one thing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::doctor {

/// The later, the worse.
enum class Verdict : std::uint8_t {
  not_applicable,  ///< there is nothing to look at here, or this user may not look
  ok,
  warn,  ///< jobs run, but slower or with less than the machine has
  fail   ///< jobs of some kind can't run until it is mended
};

/// "ok", "warn", "fail", "not applicable"
std::string_view name(Verdict verdict) noexcept;

struct Finding {
  Verdict verdict = Verdict::not_applicable;
  std::string check{};    ///< "memlock"; the same in every version
  std::string subject{};  ///< "mlx5_0:1", a PCI address; empty: the host
  std::string says{};     ///< what was seen
  std::string fix{};      ///< what to do; empty unless warn or fail
};
using Findings = std::vector<Finding>;

/// 0: nothing to mend; 1: warnings; 3: something fails. (2 is for arguments that can't be used.)
int exit_code(std::span<const Finding> findings) noexcept;

}  // namespace weft::doctor
