// The public calls that take a deadline, as the headers declare them.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace weft::tests {

/// "Class::function", and "Class::function#2" for the second function of that name in its class.
/// Throws std::runtime_error if the folder can't be read.
std::set<std::string> calls_with_deadlines(const std::filesystem::path& headers);

}  // namespace weft::tests
