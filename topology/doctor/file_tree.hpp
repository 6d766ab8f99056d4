// Small files of /sys and /proc, which may be missing or unreadable at any time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::doctor {

/// The file's first line without blanks at its end. nullopt: it can't be read.
std::optional<std::string> read_line(const std::filesystem::path& file);
/// Up to `most` bytes. Empty where it can't be read.
std::string read_bytes(const std::filesystem::path& file, std::size_t most = 65536);
/// The number that the file, or text, begins with: "16.0 GT/s PCIe" is 16.
std::optional<double> read_number(const std::filesystem::path& file);
std::optional<double> leading_number(std::string_view text);
/// The folder's entries, sorted; those that end in numbers by number. Empty where there is none.
std::vector<std::string> list_folder(const std::filesystem::path& folder);
/// Whether something is there that this user may see.
bool is_there(const std::filesystem::path& path);
/// `absolute` below another root.
std::filesystem::path below(const std::filesystem::path& root,
                            const std::filesystem::path& absolute);
/// "64 MiB"
std::string bytes_text(std::uint64_t bytes);

}  // namespace weft::doctor
