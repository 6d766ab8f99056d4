// A text file as a sequence of tokens: what the language model is trained on.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace charlm {

/// A text that cannot be used: one line that names the file, the place in it and what to try.
class TextError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Immutable once made; free to read from several threads.
struct Text {
  std::string file;
  std::vector<char32_t> vocabulary;  ///< the distinct code points, ascending
  std::vector<std::int32_t> tokens;  ///< the text, each code point as its index in `vocabulary`

  /// Nats per character of a model that knows only how often each character occurs: what any
  /// model that looks at the context has to beat.
  double unigram_entropy() const;
};

/// Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF, no NUL. A byte order
/// mark at the start is dropped. Throws TextError; `file` is only named in its text.
std::vector<char32_t> decode_utf8(std::string_view bytes, const std::string& file);

/// Appends the code point as UTF-8.
void append_utf8(std::string& out, char32_t code_point);

/// Throws TextError when the file is missing, not a regular file, larger than 256 MiB, not UTF-8
/// text, of fewer than `least_characters`, or of one character repeated.
Text read_text(const std::string& file, std::size_t least_characters);

}  // namespace charlm
