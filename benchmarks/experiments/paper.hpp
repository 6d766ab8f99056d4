// The paper's figures: of 8 servers with P100 GPUs and 100 Gb/s InfiniBand.
#pragma once

#include <span>
#include <string_view>

namespace weft::bench {

struct PaperModel {
  std::string_view model;
  std::string_view megabytes;  ///< table 1, as printed
  int variables;               ///< table 1
  std::string_view sample_ms;  ///< table 1, as printed
  /// Figure 8: steps per second over gRPC.RDMA, in percent.
  std::string_view over_rpc;
  /// Table 2: a step with GPUDirect off, and on, in ms.
  double without_gpudirect;
  double with_gpudirect;
};

inline constexpr PaperModel kPaperModels[] = {
    {"gru", "27.92", 11, "30.44", "69", 62.3, 52.6},
    {"lstm", "35.93", 14, "33.33", "118", 84.4, 68.1},
    {"inception", "92.90", 196, "68.32", "65", 172.5, 171.9},
    {"alexnet", "176.42", 16, "7.61", "169", 178.5, 135.2},
    {"fcn-5", "204.47", 10, "4.88", "151", 157.0, 101.9},
    {"vgg-16", "512.32", 32, "30.92", "117 to 145", 690.1, 610.4},
};

inline const PaperModel* paper_of(std::string_view model) {
  for (const PaperModel& one : kPaperModels)
    if (one.model == model) return &one;
  return nullptr;
}

/// Figure 10, at batch 32 with 8 servers.
struct PaperScaling {
  std::string_view model;
  std::string_view over_single;  ///< times the speed of one server
  std::string_view over_local;   ///< times the speed of local training
  std::string_view over_rpc;     ///< percent
  std::string_view rpc_beats;    ///< servers from which gRPC.RDMA is quicker than local training
};

inline constexpr PaperScaling kPaperScaling[] = {
    {"lstm", "> 7", "5", "98", "4"},
    {"inception", "> 7", "7.9", "12", "2"},
    {"vgg-16", "5.2", "4.3", "> 140", "8"},
};

}  // namespace weft::bench
