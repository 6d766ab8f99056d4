// Errors of a table's calls, in words of tables: those of the slots that it is made of say how it
// is done.
#pragma once

#include <string>
#include <string_view>

#include "pslib/table/roles.hpp"
#include "weft/error.hpp"

namespace weft::pslib {

/// `detail`, an error within `operation` of the table `table`, whose slots' names begin with
/// `prefix`: names the table in place of its slots, and the other rank as a server or a worker if
/// it is only one of the two.
ErrorDetail in_words_of_tables(ErrorDetail detail, const char* operation, std::string_view table,
                               std::string_view prefix, const Roles& roles);
Status in_words_of_tables(Status status, const char* operation, std::string_view table,
                          std::string_view prefix, const Roles& roles) noexcept;

}  // namespace weft::pslib
