#include "p2p/transport/rank_settings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "weft/error.hpp"

namespace weft::p2p {

std::string record_dir_of(const Config& config) {
  std::string folder = config.text(Setting::record_dir);
  if (!folder.empty() && ::access(folder.c_str(), R_OK | W_OK | X_OK) != 0)
    throw Error(
        ErrorDetail{.code = Code::bad_config,
                    .operation = "join",
                    .message = fmt::format("WEFT_RECORD_DIR={}: {}", folder, std::strerror(errno)),
                    .hint = "name a folder that exists on every host and may be written to"});
  return folder;
}

RankSettings::RankSettings(const LocalRankOptions& options)
    : record_dir(record_dir_of(options.config)),
      only_fabric(fabric_kind(options.config.text(Setting::fabric))),
      cross_memory(options.config.text(Setting::cross_memory) == "auto"),
      check_flow(options.config.text(Setting::check) == "flow"),
      placement(options.placement) {}

}  // namespace weft::p2p
