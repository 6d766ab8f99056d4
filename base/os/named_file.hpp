// Files that the user names, in folders to which others may write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/os/fd.hpp"

namespace weft::os {

/// Whether to append to a file or to replace its content.
enum class Output : std::uint8_t { append, replace };

/// Opens a file for writing, creating it with mode 0644 minus the umask. Refuses possible traps: a
/// symbolic link, a FIFO, another user's file (except root's), a file with a second hard link.
/// Accepts devices. Never blocks. Throws Error(system) with operation, path and reason.
Fd open_output(const std::filesystem::path& path, Output how, const char* operation);

/// Opens `path` as above and replaces its content by `text`. Errors as above.
void write_output(const std::filesystem::path& path, std::string_view text, const char* operation);

/// Reads a whole regular file, following links. Never blocks. Throws Error(system) with operation,
/// path and reason, also if the file has more than `most` bytes.
std::string read_file(const std::filesystem::path& path, std::size_t most, const char* operation);
/// The same for a file that another process may have planted: refuses what open_output() refuses,
/// and devices. Returns nullopt if nothing has that name.
std::optional<std::string> find_own_file(const std::filesystem::path& path, std::size_t most,
                                         const char* operation);

}  // namespace weft::os
