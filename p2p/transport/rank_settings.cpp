#include "p2p/transport/rank_settings.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/os/system_error.hpp"
#include "weft/error.hpp"

namespace weft::p2p {

std::string record_dir_of(const Config& config) {
  std::string folder = config.text(Setting::record_dir);
  if (folder.empty()) return folder;
  const auto refuse = [&](const std::string& why) {
    throw Error(
        ErrorDetail{.code = Code::bad_config,
                    .operation = "join",
                    .message = fmt::format("WEFT_RECORD_DIR={}: {}", folder, why),
                    .hint = "name a folder that exists on every host and may be written to"});
  };
  struct stat about {};
  if (::stat(folder.c_str(), &about) != 0) refuse(os::words(errno));
  if (!S_ISDIR(about.st_mode)) refuse("it is no folder");
  if (::access(folder.c_str(), R_OK | W_OK | X_OK) != 0) refuse(os::words(errno));
  return folder;
}

RankSettings::RankSettings(const LocalRankOptions& options)
    : record_dir(record_dir_of(options.config)),
      only_fabric(fabric_kind(options.config.text(Setting::fabric))),
      cross_memory(options.config.text(Setting::cross_memory) == "auto"),
      require_gdr(options.config.text(Setting::require) == "gdr"),
      gpu_staging(options.config.size(Setting::gpu_staging).value()),
      check_flow(options.config.text(Setting::check) == "flow"),
      placement(options.placement) {}

}  // namespace weft::p2p
