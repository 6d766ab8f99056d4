// Files that the user names, in folders to which others may write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/os/fd.hpp"

namespace weft::os {

enum class Output : std::uint8_t { append, replace };

/// Opens a file to write, creating it with mode 0644 less the umask. Refuses what may be a trap: a
/// symbolic link, a FIFO, another user's file (root's is taken), one with a second name. Devices
/// are taken. Waits for nobody. Throws Error(system): operation, path, why.
Fd open_output(const std::filesystem::path& path, Output how, const char* operation);

/// Opens it to replace what it holds, and writes `text`. Errors as above.
void write_output(const std::filesystem::path& path, std::string_view text, const char* operation);

/// All of a regular file, through links. Throws Error(system): operation, path, why; so for one of
/// more than `most` bytes. Waits for nobody.
std::string read_file(const std::filesystem::path& path, std::size_t most, const char* operation);

}  // namespace weft::os
