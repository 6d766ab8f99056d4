// The file that WEFT_LOG_FILE names.
#pragma once

#include <string>
#include <string_view>

#include "base/os/fd.hpp"

namespace weft {

/// For example "3"; "-" if the rank is not known (-1).
std::string rank_text(int rank);

/// Opens the file that `pattern` names for appending. In `pattern`, %h, %p, %r and %% stand for
/// host, process, rank and a percent sign. Returns an empty Fd for an empty pattern. Throws
/// Error(bad_config).
os::Fd open_log_file(std::string_view pattern, std::string_view host, int rank);
/// Refuses what open_log_file() would refuse for this process without a rank, and creates nothing.
/// Throws Error(bad_config).
void check_log_file(std::string_view pattern, std::string_view host);

}  // namespace weft
