#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace charlm {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMostBytes = std::uintmax_t{256} << 20;
constexpr const char* kAdvice = "give a plain text file in UTF-8, such as a licence or a book";

[[noreturn]] void fail(const std::string& file, const std::string& what,
                       const std::string& advice = kAdvice) {
  throw TextError(fmt::format("{}: {}; {}", file, what, advice));
}

[[noreturn]] void fail_at(const std::string& file, std::size_t offset, const std::string& what) {
  fail(file, fmt::format("not UTF-8 text: {} at byte {}", what, offset),
       "give a UTF-8 text file, or convert it with iconv -t UTF-8");
}

// The form of a character, from its lead byte. `least` is the smallest code point that needs this
// many bytes.
struct Lead {
  std::size_t length;
  char32_t bits;
  char32_t least;
};

Lead classify(unsigned char byte) {
  if (byte < 0x80) return {1, byte, 0};
  if (byte >= 0xC0 && byte < 0xE0) return {2, byte & 0x1FU, 0x80};
  if (byte >= 0xE0 && byte < 0xF0) return {3, byte & 0x0FU, 0x800};
  if (byte >= 0xF0 && byte < 0xF8) return {4, byte & 0x07U, 0x10000};
  return {0, 0, 0};
}

std::string read_bytes(const std::string& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (status.type() == fs::file_type::not_found) fail(file, "no such file");
  if (error) fail(file, error.message(), "check the path and its permissions");
  if (fs::is_directory(status)) fail(file, "is a directory");
  if (!fs::is_regular_file(status))
    fail(file, "is not a regular file", "every rank reads it, so a pipe or a device won't do");
  const std::uintmax_t size = fs::file_size(file, error);
  if (error) fail(file, error.message(), "check the path and its permissions");
  if (size > kMostBytes)
    fail(file, fmt::format("{} bytes, more than the {} MiB accepted", size, kMostBytes >> 20),
         "give a part of it");
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in)
    fail(file, std::error_code(errno, std::generic_category()).message(),
         "check the path and its permissions");
  return bytes;
}

}  // namespace

std::vector<char32_t> decode_utf8(std::string_view bytes, const std::string& file) {
  constexpr char32_t kByteOrderMark = 0xFEFF;
  std::vector<char32_t> out;
  out.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const auto first = static_cast<unsigned char>(bytes[at]);
    const Lead lead = classify(first);
    if (first == 0) fail_at(file, at, "a NUL");
    if (lead.length == 0) fail_at(file, at, fmt::format("invalid byte 0x{:02x}", first));
    if (at + lead.length > bytes.size()) fail_at(file, at, "a character cut short by the end");
    char32_t code = lead.bits;
    for (std::size_t i = 1; i < lead.length; ++i) {
      const auto next = static_cast<unsigned char>(bytes[at + i]);
      if ((next & 0xC0U) != 0x80U)
        fail_at(file, at + i, fmt::format("invalid continuation byte 0x{:02x}", next));
      code = code << 6U | (next & 0x3FU);
    }
    if (code < lead.least) fail_at(file, at, "an overlong form");
    if (code >= 0xD800 && code <= 0xDFFF) fail_at(file, at, "a surrogate");
    if (code > 0x10FFFF) fail_at(file, at, "a code point above U+10FFFF");
    if (at != 0 || code != kByteOrderMark) out.push_back(code);
    at += lead.length;
  }
  return out;
}

void append_utf8(std::string& out, char32_t code) {
  const auto tail = [&](unsigned shift) {
    out.push_back(static_cast<char>(0x80U | (code >> shift & 0x3FU)));
  };
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0U | code >> 6U));
    tail(0);
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0U | code >> 12U));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0U | code >> 18U));
    tail(12);
    tail(6);
    tail(0);
  }
}

double Text::unigram_entropy() const {
  std::vector<double> counts(vocabulary.size(), 0.0);
  for (const std::int32_t token : tokens) counts[static_cast<std::size_t>(token)] += 1.0;
  const auto total = static_cast<double>(tokens.size());
  double entropy = 0.0;
  for (const double count : counts)
    if (count > 0) entropy -= count / total * std::log(count / total);
  return entropy;
}

Text read_text(const std::string& file, std::size_t least_characters) {
  const std::string bytes = read_bytes(file);
  if (bytes.empty()) fail(file, "the file is empty");
  const std::vector<char32_t> code_points = decode_utf8(bytes, file);
  if (code_points.size() < least_characters)
    fail(file,
         fmt::format("{} characters, too short: at least {} are needed", code_points.size(),
                     least_characters),
         "give a longer text or a smaller --length");

  Text text;
  text.file = file;
  text.vocabulary = code_points;
  std::sort(text.vocabulary.begin(), text.vocabulary.end());
  text.vocabulary.erase(std::unique(text.vocabulary.begin(), text.vocabulary.end()),
                        text.vocabulary.end());
  if (text.vocabulary.size() < 2) fail(file, "one character repeated, so nothing to learn");
  text.tokens.reserve(code_points.size());
  for (const char32_t code : code_points) {
    const auto found = std::lower_bound(text.vocabulary.begin(), text.vocabulary.end(), code);
    text.tokens.push_back(static_cast<std::int32_t>(found - text.vocabulary.begin()));
  }
  return text;
}

}  // namespace charlm
