// A table's counts as Prometheus reads them from a text file.
#pragma once

#include <string>

#include "base/stats/table_stats.hpp"

namespace weft::pslib {

/// The text exposition format, version 0.0.4.
std::string prometheus_text(const stats::TablePage& page);

}  // namespace weft::pslib
