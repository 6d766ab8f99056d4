#include "topology/placement/gpu_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace weft::topology {
namespace {

constexpr std::uint16_t kNvidia = 0x10de;
constexpr std::string_view kUuid = "GPU-";

const Gpu& gpu_at(const Model& model, int index) {
  return model.gpus[static_cast<std::size_t>(index)];
}

/// Some sources don't tell who made a GPU.
bool may_be_nvidias(const Model& model, const Gpu& gpu) {
  const std::uint16_t vendor =
      gpu.pci == kNone ? std::uint16_t{0} : model.pci[static_cast<std::size_t>(gpu.pci)].vendor;
  return vendor == 0 || vendor == kNvidia;
}

std::optional<std::size_t> number_in(std::string_view text) {
  std::size_t number = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || at != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string label(const Model& model, int gpu) {
  const auto address = model.address_of(gpu_at(model, gpu));
  return fmt::format("{} at {}", gpu_at(model, gpu).name, address ? address->text() : "?");
}

/// A GPU that CUDA can have, and its UUID.
using Known = std::pair<int, std::string>;

/// NVIDIA's, which its driver has here.
std::vector<Known> all_gpus(const Model& model, const RankOnHost& own) {
  std::vector<Known> all;
  for (std::size_t i = 0; i < model.gpus.size(); ++i) {
    const Gpu& gpu = model.gpus[i];
    if (!may_be_nvidias(model, gpu)) continue;
    const auto address = model.address_of(gpu);
    if (!own.driven_gpus) {
      all.emplace_back(static_cast<int>(i), gpu.uuid);
      continue;
    }
    for (const DrivenGpu& driven : *own.driven_gpus)
      if (address && PciAddress::parse(driven.pci) == address)
        all.emplace_back(static_cast<int>(i), driven.uuid);
  }
  return all;
}

/// By number or UUID, of which the beginning is enough, as for CUDA.
int find_in(const std::vector<Known>& gpus, std::string_view word) {
  if (const auto number = number_in(word))
    return *number < gpus.size() ? gpus[*number].first : kNone;
  if (!word.starts_with(kUuid) || word.size() == kUuid.size()) return kNone;
  int found = kNone;
  for (const auto& [gpu, uuid] : gpus) {
    if (!uuid.starts_with(word)) continue;
    if (found != kNone) return kNone;
    found = gpu;
  }
  return found;
}

/// Those that CUDA_VISIBLE_DEVICES shows. Sets `unknown` if that can't be told.
std::vector<Known> visible_gpus(const std::vector<Known>& all, const RankOnHost& own,
                                std::string& unknown) {
  if (!own.visible_gpus) return all;
  std::vector<Known> seen;
  for (std::string_view rest = *own.visible_gpus; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const int gpu = find_in(all, word);
    if (gpu == kNone) {
      // As CUDA does, which hides a number that is not there, and all that follows.
      if (number_in(word)) break;
      unknown = fmt::format("CUDA_VISIBLE_DEVICES={} names a GPU that topology does not know: {}",
                            *own.visible_gpus, word);
      return {};
    }
    seen.push_back(*std::find_if(all.begin(), all.end(),
                                 [&](const Known& known) { return known.first == gpu; }));
  }
  return seen;
}

/// One rank's GPU is named: the others are assumed to have the next ones in turn. But the first
/// GPU, in a rank whose turn is another, is taken for one that all ranks are told.
std::vector<int> deal_around(const std::vector<Known>& all, const RankOnHost& own, int gpu) {
  const auto count = static_cast<int>(all.size());
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Known& known) { return known.first == gpu; });
  const auto at = static_cast<int>(found - all.begin());
  const bool is_everyones = at == 0 && own.index % count != 0;
  std::vector<int> dealt;
  for (int i = 0; i < own.count; ++i) {
    const int turn = is_everyones ? 0 : ((at + i - own.index) % count + count) % count;
    dealt.push_back(all[static_cast<std::size_t>(turn)].first);
  }
  return dealt;
}

}  // namespace

GivenGpus give_gpus(const Model& model, const RankOnHost& own) {
  GivenGpus given;
  const std::vector<Known> all = all_gpus(model, own);
  if (all.empty()) return given;
  const std::vector<Known> seen = visible_gpus(all, own, given.reason);
  if (seen.empty()) {
    if (given.reason.empty()) given.reason = "CUDA_VISIBLE_DEVICES hides all GPUs";
    return given;
  }
  for (const auto& [gpu, uuid] : seen) given.visible.push_back(gpu);
  if (own.gpu != "auto") {
    const int named = find_in(seen, own.gpu);
    if (named == kNone) {
      given.reason = fmt::format("WEFT_GPU={} is none that topology knows", own.gpu);
      return given;
    }
    given.is_named = true;
    given.of_rank = deal_around(all, own, named);
    given.reason = fmt::format("{}, by WEFT_GPU={}", label(model, named), own.gpu);
    return given;
  }
  given.is_named = own.visible_gpus && seen.size() == 1;
  if (given.is_named) {
    given.of_rank = deal_around(all, own, seen.front().first);
    given.reason =
        fmt::format("{}, which CUDA_VISIBLE_DEVICES names", label(model, seen.front().first));
    return given;
  }
  for (int i = 0; i < own.count; ++i)
    given.of_rank.push_back(seen[static_cast<std::size_t>(i) % seen.size()].first);
  given.reason = fmt::format("{}, one of {} in turn, this rank being {} of its host",
                             label(model, given.of_rank.at(static_cast<std::size_t>(own.index))),
                             seen.size(), own.index);
  if (seen.size() < all.size()) given.reason += "; CUDA_VISIBLE_DEVICES hides others";
  return given;
}

}  // namespace weft::topology
