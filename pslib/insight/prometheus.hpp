// A table's counts as Prometheus reads them from a text file.
#pragma once

#include <string>

#include "base/board/table_board.hpp"

namespace weft::pslib {

/// The text exposition format, version 0.0.4.
std::string prometheus_text(const board::TablePage& page);

}  // namespace weft::pslib
