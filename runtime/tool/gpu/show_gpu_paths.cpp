// GpuPaths as text and as JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/tool/gpu/gpu_paths.hpp"

namespace weft::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMebibyte = 1 << 20;

std::string line(const char* what, const Finding& finding) {
  return fmt::format("         {:<14} {}{}\n", what, finding.works ? "yes" : "no",
                     finding.says.empty() ? "" : ": " + finding.says);
}

std::string text_of(const GpuFacts& gpu, bool is_own) {
  std::string text = fmt::format("GPU {:<4} {}, {}, {}{}\n", gpu.ordinal, gpu.name, gpu.uuid,
                                 gpu.pci, is_own ? ", this process's" : "");
  if (!gpu.opened.works) return text + line("usable", gpu.opened);
  text += fmt::format("         {:<14} {:.0f} MiB of {:.0f} MiB free\n", "memory",
                      static_cast<double>(gpu.free) / kMebibyte,
                      static_cast<double>(gpu.total) / kMebibyte);
  text += line("copies", gpu.copy);
  text += line("exported", gpu.exported);
  text += line("GPUDirect", gpu.gpudirect);
  text += line("dma-buf", gpu.dma_buf);
  text += line("stream words", gpu.stream_words);
  return text;
}

std::string text_of(const NicPath& path) {
  if (path.gpu < 0) return fmt::format("NIC      {} can't be used: {}\n", path.nic, path.reason);
  std::string text = fmt::format("NIC      {} and GPU {}: {}", path.nic, path.gpu, path.way);
  if (!path.registered_by.empty())
    text += fmt::format(", registered by {}, flushed by {}", path.registered_by, path.flush);
  return text + fmt::format(": {}\n", path.reason);
}

Json json_of(const Finding& finding) { return {{"works", finding.works}, {"says", finding.says}}; }

Json json_of(const GpuFacts& gpu) {
  return {{"gpu", gpu.ordinal},
          {"uuid", gpu.uuid},
          {"name", gpu.name},
          {"pci", gpu.pci},
          {"free_bytes", gpu.free},
          {"total_bytes", gpu.total},
          {"opened", json_of(gpu.opened)},
          {"copies", json_of(gpu.copy)},
          {"exported", json_of(gpu.exported)},
          {"gpudirect", json_of(gpu.gpudirect)},
          {"dma_buf", json_of(gpu.dma_buf)},
          {"stream_words", json_of(gpu.stream_words)}};
}

}  // namespace

std::string text_of(const GpuPaths& paths) {
  if (!paths.none.empty()) return fmt::format("no GPU: {}\n", paths.none);
  std::string text = fmt::format("driver   of CUDA {}\n", paths.driver);
  for (const GpuFacts& gpu : paths.gpus) text += text_of(gpu, gpu.ordinal == paths.own);
  text += fmt::format("own GPU  {}: {}\n", paths.own, paths.own_reason);
  text += fmt::format("kernels  {}: {}\n", paths.kernels.works ? "yes" : "no", paths.kernels.says);
  text +=
      fmt::format("staging  on {}: {}\n",
                  paths.staging < 0 ? "any NUMA node" : fmt::format("NUMA node {}", paths.staging),
                  paths.staging_reason);
  for (const GpuPairPath& pair : paths.pairs)
    text += fmt::format("copies   of GPU {} into GPU {}{}: {}: {}\n", pair.writer, pair.owner,
                        pair.writer == pair.owner ? " (another rank's memory)" : "",
                        pair.mapped.works ? "mapped" : "staged", pair.mapped.says);
  if (!paths.no_nics.empty()) text += fmt::format("NIC      none: {}\n", paths.no_nics);
  for (const NicPath& path : paths.nics) text += text_of(path);
  return text;
}

std::string json_of(const GpuPaths& paths) {
  Json gpus = Json::array();
  for (const GpuFacts& gpu : paths.gpus) gpus.push_back(json_of(gpu));
  Json pairs = Json::array();
  for (const GpuPairPath& pair : paths.pairs)
    pairs.push_back({{"writer", pair.writer},
                     {"owner", pair.owner},
                     {"way", pair.mapped.works ? "mapped" : "staged"},
                     {"reason", pair.mapped.says}});
  Json nics = Json::array();
  for (const NicPath& path : paths.nics)
    nics.push_back({{"nic", path.nic},
                    {"gpu", path.gpu < 0 ? Json() : Json(path.gpu)},
                    {"way", path.way},
                    {"registered_by", path.registered_by},
                    {"flush", path.flush},
                    {"reason", path.reason}});
  const Json all = {{"schema", "weft-gpu/1"},
                    {"none", paths.none.empty() ? Json() : Json(paths.none)},
                    {"driver", paths.driver},
                    {"own", paths.own < 0 ? Json() : Json(paths.own)},
                    {"own_reason", paths.own_reason},
                    {"kernels", json_of(paths.kernels)},
                    {"staging_numa", paths.staging < 0 ? Json() : Json(paths.staging)},
                    {"staging_reason", paths.staging_reason},
                    {"gpus", std::move(gpus)},
                    {"pairs", std::move(pairs)},
                    {"nics", std::move(nics)},
                    {"no_nics", paths.no_nics}};
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace weft::tool
