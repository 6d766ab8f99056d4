#include "p2p/transport/cuda/own_gpu.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>

#include "base/fail.hpp"
#include "topology/model/pci_address.hpp"

namespace weft::p2p::cuda {
namespace {

[[noreturn]] void bad_setting(const std::string& wanted, std::string why) {
  throw_error(Code::bad_config, "choose GPU", fmt::format("WEFT_GPU={}: {}", wanted, why),
              "give a GPU's number or UUID as nvidia-smi -L lists it, or auto");
}

/// A number from 0 on, if the text is one.
std::optional<int> number_in(const std::string& text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end || number < 0) return std::nullopt;
  return number;
}

/// The digits of "GPU-5c89c6a1-..." or "MIG-...", in lower case; empty: it is no UUID.
std::string digits_in(const std::string& text) {
  if (text.rfind("GPU-", 0) != 0 && text.rfind("MIG-", 0) != 0) return {};
  std::string digits;
  for (const char c : text.substr(4))
    if (c != '-') digits += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return digits;
}

int gpu_by_uuid(const Driver& driver, const std::string& text, int count) {
  const std::string wanted = digits_in(text);
  std::string seen;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const std::string uuid = uuid_text_of(driver, ordinal);
    if (uuid.empty()) continue;
    if (digits_in(uuid) == wanted) return ordinal;
    seen += fmt::format("{}{}", seen.empty() ? "" : ", ", uuid);
  }
  bad_setting(text, fmt::format("this process sees no such GPU, but {}", seen));
}

/// The GPU that topology gives, or the next in turn. A rank that took its turn beside one that
/// followed topology might meet it on one GPU, so topology counts for all ranks or for none.
OwnGpu by_topology(const Driver& driver, const GpuWish& wish, int count) {
  std::vector<std::string> shown;
  for (int ordinal = 0; ordinal < count && !wish.pci.empty(); ++ordinal)
    shown.push_back(pci_address_of(driver, ordinal));
  const auto own = std::find(shown.begin(), shown.end(), wish.pci);
  if (own != shown.end() &&
      std::is_permutation(shown.begin(), shown.end(), wish.visible.begin(), wish.visible.end()))
    return {static_cast<int>(own - shown.begin()), wish.reason};
  std::string why = wish.reason.empty() ? "topology shows no GPU" : wish.reason;
  if (!wish.pci.empty())
    why = fmt::format("this process sees {}, and not {} as topology has it", fmt::join(shown, ", "),
                      fmt::join(wish.visible, ", "));
  return {wish.index % count, fmt::format("one of {} in turn, this rank being {} of its host: {}",
                                          count, wish.index, why)};
}

}  // namespace

void check_gpu_setting(const std::string& setting) {
  const bool is_known = setting == "auto" || number_in(setting) ||
                        digits_in(setting).size() == 2 * sizeof(Uuid::bytes);
  if (!is_known) bad_setting(setting, "that is neither a number nor a GPU's UUID");
}

OwnGpu choose_own_gpu(const Driver& driver, const GpuWish& wish, const char* operation) {
  int count = 0;
  if (driver.device_count(&count) != DriverStatus::success || count == 0)
    throw_error(Code::system, operation, "the CUDA driver sees no GPU", "check nvidia-smi");
  check_gpu_setting(wish.setting);
  if (wish.setting == "auto") return by_topology(driver, wish, count);
  const std::string reason = "WEFT_GPU=" + wish.setting;
  if (const auto number = number_in(wish.setting)) {
    if (*number >= count)
      bad_setting(wish.setting, fmt::format("this process sees {} GPUs, counted from 0", count));
    return {*number, reason};
  }
  return {gpu_by_uuid(driver, wish.setting, count), reason};
}

std::string pci_address_of(const Driver& driver, int ordinal) {
  std::array<char, 64> bus{};
  if (driver.device_bus_id(bus.data(), static_cast<int>(bus.size()) - 1, ordinal) !=
      DriverStatus::success)
    return {};
  const auto address = topology::PciAddress::parse(bus.data());
  return address ? address->text() : std::string();
}

std::string device_name_of(const Driver& driver, int ordinal) {
  std::array<char, 256> name{};
  if (driver.device_name(name.data(), static_cast<int>(name.size()) - 1, ordinal) !=
      DriverStatus::success)
    return {};
  return name.data();
}

std::string uuid_text_of(const Driver& driver, int ordinal) {
  Uuid uuid{};
  if (driver.device_uuid(&uuid, ordinal) != DriverStatus::success) return {};
  // The driver tells a MIG slice by its name alone: "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
  std::string text =
      device_name_of(driver, ordinal).find(" MIG ") == std::string::npos ? "GPU-" : "MIG-";
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

}  // namespace weft::p2p::cuda
