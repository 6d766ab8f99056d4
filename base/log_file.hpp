// Where WEFT_LOG_FILE sends the log.
#pragma once

#include <string>
#include <string_view>

#include "base/os/fd.hpp"

namespace weft {

/// "3"; "-" where the rank is not known.
std::string rank_text(int rank);

/// Opens, to append, the file that `pattern` names; %h, %p, %r and %% in it stand for host,
/// process, rank and a percent sign. None for an empty pattern. Throws Error(bad_config).
os::Fd open_log_file(std::string_view pattern, std::string_view host, int rank);

}  // namespace weft
