// A table's counters as a Prometheus text file.
#pragma once

#include <string>

#include "base/stats/table_stats.hpp"

namespace weft::pslib {

/// Prometheus text exposition format, version 0.0.4.
std::string prometheus_text(const stats::TablePage& page);

}  // namespace weft::pslib
