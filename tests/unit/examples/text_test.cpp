#include "text.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/base/temp_folder.hpp"

namespace {

namespace fs = std::filesystem;
using charlm::decode_utf8;
using charlm::read_text;
using charlm::TextError;
using namespace std::string_literals;

std::string complaint(const std::string& bytes) {
  try {
    decode_utf8(bytes, "a.txt");
  } catch (const TextError& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& line, const std::string& part) {
  return line.find(part) != std::string::npos;
}

TEST(Utf8, decodes_characters_of_every_length) {
  const std::vector<char32_t> expected = {U'a', U'\u00e9', U'\u20ac', U'\U0001F600', 0x10FFFF};
  EXPECT_EQ(decode_utf8("a\u00e9\u20ac\U0001F600\U0010FFFF", "f"), expected);
}

TEST(Utf8, writing_and_decoding_gives_every_boundary_back) {
  for (const char32_t code :
       {1U, 0x7FU, 0x80U, 0x7FFU, 0x800U, 0xD7FFU, 0xE000U, 0xFFFFU, 0x10000U, 0x10FFFFU}) {
    std::string bytes;
    charlm::append_utf8(bytes, code);
    EXPECT_EQ(decode_utf8(bytes, "f"), std::vector<char32_t>{code})
        << static_cast<std::uint32_t>(code);
  }
}

TEST(Utf8, a_byte_order_mark_is_dropped_at_the_start_only) {
  EXPECT_EQ(decode_utf8("\uFEFFx\uFEFF", "f"), (std::vector<char32_t>{U'x', 0xFEFF}));
}

TEST(Utf8, each_malformation_is_named_with_file_and_byte) {
  const struct {
    std::string bytes, what, where;
  } cases[] = {
      {"ab\xff", "invalid byte 0xff", "at byte 2"},
      {"a\x80", "invalid byte 0x80", "at byte 1"},
      {"\xe2\x82", "cut short", "at byte 0"},
      {"\xe2\x41\x41", "invalid continuation byte 0x41", "at byte 1"},
      {"x\xc0\xaf", "overlong", "at byte 1"},
      {"\xe0\x80\xaf", "overlong", "at byte 0"},
      {"\xed\xa0\x80", "surrogate", "at byte 0"},
      {"\xf4\x90\x80\x80", "above U+10FFFF", "at byte 0"},
      {"abc\0d"s, "NUL", "at byte 3"},
  };
  for (const auto& c : cases) {
    const std::string line = complaint(c.bytes);
    EXPECT_TRUE(has(line, c.what)) << line << " lacks " << c.what;
    EXPECT_TRUE(has(line, c.where)) << line << " lacks " << c.where;
    EXPECT_TRUE(has(line, "a.txt")) << line;
    EXPECT_TRUE(has(line, "iconv")) << line;
    EXPECT_FALSE(has(line, "\n")) << line;
  }
}

class TextFile : public testing::Test {
 protected:
  std::string write(const std::string& bytes) const {
    const fs::path file = folder_.path() / "text";
    std::ofstream(file, std::ios::binary) << bytes;
    return file.string();
  }
  std::string refusal(const std::string& file, std::size_t least = 4) const {
    try {
      read_text(file, least);
    } catch (const TextError& error) {
      return error.what();
    }
    return "";
  }

  const weft::tests::TempFolder folder_;
};

TEST_F(TextFile, tokens_index_the_sorted_vocabulary) {
  const charlm::Text text = read_text(write("b\u00e9ab\n"), 1);
  EXPECT_EQ(text.vocabulary, (std::vector<char32_t>{U'\n', U'a', U'b', U'\u00e9'}));
  EXPECT_EQ(text.tokens, (std::vector<std::int32_t>{2, 3, 1, 2, 0}));
}

TEST_F(TextFile, unigram_entropy_is_that_of_the_character_frequencies) {
  EXPECT_NEAR(read_text(write("abcdabcd"), 1).unigram_entropy(), std::log(4.0), 1e-12);
  EXPECT_NEAR(read_text(write("aaab"), 1).unigram_entropy(),
              -0.75 * std::log(0.75) - 0.25 * std::log(0.25), 1e-12);
}

TEST_F(TextFile, what_cannot_be_used_is_refused_with_the_file_and_the_reason) {
  const struct {
    std::string file, reason;
  } cases[] = {
      {(folder_.path() / "absent").string(), "no such file"},
      {folder_.path().string(), "is a directory"},
      {"/dev/null", "not a regular file"},
  };
  for (const auto& c : cases) {
    const std::string line = refusal(c.file);
    EXPECT_TRUE(has(line, c.reason)) << line;
    EXPECT_TRUE(has(line, c.file)) << line;
  }
  EXPECT_TRUE(has(refusal(write("")), "empty"));
  EXPECT_TRUE(has(refusal(write("abc")), "3 characters, too short: at least 4"));
  EXPECT_TRUE(has(refusal(write("aaaaaaaa")), "nothing to learn"));
  EXPECT_TRUE(has(refusal(write("\x7f\x45LF\x02\x01\0\0"s)), "NUL at byte 6"));
}

TEST_F(TextFile, a_text_of_exactly_the_least_length_is_taken) {
  EXPECT_EQ(refusal(write("abcd"), 4), "");
}

}  // namespace
