// The training text: a file as a sequence of tokens.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace charlm {

/// An unusable text. The error is one line with the file, the place in it, and a remedy to try.
class TextError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Immutable once made; may be read by several threads.
struct Text {
  std::string file;
  std::vector<char32_t> vocabulary;  ///< the distinct code points, ascending
  std::vector<std::int32_t> tokens;  ///< the text, each code point as its index in `vocabulary`

  /// Nats per character of a model that knows only the frequencies of characters: a model that uses
  /// context must be better.
  double unigram_entropy() const;
};

/// Decodes strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF, no NUL. Drops a
/// byte order mark at the start. Throws TextError, whose text names `file`.
std::vector<char32_t> decode_utf8(std::string_view bytes, const std::string& file);

/// Appends `code_point` to `out` as UTF-8.
void append_utf8(std::string& out, char32_t code_point);

/// Reads a text. Throws TextError if the file is missing, not a regular file, larger than 256 MiB,
/// not UTF-8, has fewer than `least_characters` characters, or repeats a single one.
Text read_text(const std::string& file, std::size_t least_characters);

}  // namespace charlm
