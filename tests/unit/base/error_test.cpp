#include "weft/error.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "base/printable.hpp"
#include "tests/unit/base/memory_shortage.hpp"

namespace weft {
namespace {

ErrorDetail attach_mismatch() {
  return {.code = Code::mismatch,
          .operation = "attach",
          .message = "this rank expects f32[2, 3] depth 1, the owner exposes f32[3, 2] depth 1",
          .hint = "make both sides' SlotSpec equal",
          .peer = 3,
          .host = "b",
          .slot = "grad"};
}

TEST(ErrorText, IsOneLineWithOperationCodePlaceMessageAndHint) {
  EXPECT_EQ(attach_mismatch().text(),
            "attach: mismatch: slot \"grad\" of rank 3 (host b): this rank expects f32[2, 3] depth "
            "1, the owner exposes f32[3, 2] depth 1; make both sides' SlotSpec equal");
}

TEST(ErrorText, LeavesOutWhatIsNotKnown) {
  EXPECT_EQ(ErrorDetail{.code = Code::closed}.text(), "closed");
  EXPECT_EQ((ErrorDetail{.code = Code::timeout, .operation = "wait", .peer = 2}.text()),
            "wait: timeout: rank 2");
  EXPECT_EQ((ErrorDetail{.code = Code::unreachable, .operation = "join", .host = "a"}.text()),
            "join: unreachable: host a");
}

TEST(ErrorText, DoesNotRepeatWhatTheMessageSays) {
  auto detail = attach_mismatch();
  detail.message = "slot \"grad\" of rank 3 on b differs";
  EXPECT_EQ(detail.text(),
            "attach: mismatch: slot \"grad\" of rank 3 on b differs; make both sides' SlotSpec "
            "equal");
  // Rank 3 is not named by "rank 31", nor slot "grad" by "grads".
  detail.message = "rank 31 has \"grads\" on bb";
  EXPECT_EQ(detail.text(),
            "attach: mismatch: slot \"grad\" of rank 3 (host b): rank 31 has \"grads\" on bb; make "
            "both sides' SlotSpec equal");
}

TEST(ErrorText, TellsTheHostBesideTheRankThatTheMessageNames) {
  ErrorDetail detail{.code = Code::timeout,
                     .message = "call 1: rank 2 has not done its part",
                     .peer = 2,
                     .host = "b"};
  EXPECT_EQ(detail.text(), "timeout: call 1: rank 2 (host b) has not done its part");
  detail.message = "call 1: rank 2 on b has not done its part";
  EXPECT_EQ(detail.text(), "timeout: call 1: rank 2 on b has not done its part");
}

TEST(ErrorText, ShowsTheSequencesOfAWait) {
  const ErrorDetail detail{.code = Code::timeout,
                           .operation = "wait",
                           .message = "nothing came",
                           .peer = 1,
                           .slot = "grad",
                           .sequence_expected = 8,
                           .sequence_seen = 7};
  EXPECT_EQ(detail.text(),
            "wait: timeout: slot \"grad\" of rank 1: nothing came, expected 8, seen 7");
}

TEST(ErrorText, StaysOneLineWhateverNamesHold) {
  const ErrorDetail detail{.code = Code::system, .message = "two\nlines", .slot = "a\r\nb"};
  EXPECT_EQ(detail.text().find_first_of("\r\n"), std::string::npos);
}

TEST(ErrorText, ShowsControlCharactersByTheirNumbers) {
  const ErrorDetail detail{.code = Code::timeout,
                           .message = "rank 1\x1b[31m\x7f left: gr\xc3\xbc\xc3\x9f",
                           .slot = "a\tb\xc2\x9b\xff"};
  EXPECT_EQ(detail.text(),
            "timeout: slot \"a b\\xc2\\x9b\\xff\": rank 1\\x1b[31m\\x7f left: "
            "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(printable("a \xe2\x80\x93 b"), "a \xe2\x80\x93 b");
  EXPECT_EQ(printable("a\xe2\x80\xaez"), "a\\xe2\\x80\\xaez") << "turns the line around";
  for (const char* bad :
       {"\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"})
    EXPECT_EQ(utf8_bytes(bad), 0U) << "no UTF-8";
  EXPECT_EQ(utf8_bytes("\xf0\x9f\x8e\x89"), 4U);
}

TEST(Code, NamesAreDistinct) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(Code::forked); ++code)
    names.insert(name(static_cast<Code>(code)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Code::forked) + 1);
  EXPECT_EQ(names.count("unknown"), 0U);
}

TEST(Status, IsOkUntilItHoldsADetail) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().text(), "ok");
  EXPECT_NO_THROW(Status().or_throw());

  const Status status(attach_mismatch());
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::mismatch);
  EXPECT_EQ(status.text(), attach_mismatch().text());
}

TEST(Status, ThrowsAnErrorThatSharesItsDetail) {
  const Status status(attach_mismatch());
  try {
    status.or_throw();
    FAIL() << "or_throw returned";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::mismatch);
    EXPECT_EQ(error.what(), status.text());
    EXPECT_EQ(&error.detail(), &status.detail());
    EXPECT_EQ(error.status().shared_detail(), status.shared_detail());
  }
}

TEST(Status, SaysSoWhenThereIsNoMemoryForTheDetail) {
  auto detail = attach_mismatch();
  Status status;
  {
    const tests::MemoryShortage shortage;
    status = Status(std::move(detail));
  }
  EXPECT_EQ(status.code(), Code::exhausted);
  EXPECT_EQ(status.text(), "exhausted: out of memory");
}

TEST(Result, IsAValueOrTheReasonWhyThereIsNone) {
  Result<std::unique_ptr<int>> value(std::make_unique<int>(4));
  ASSERT_TRUE(value.ok());
  EXPECT_TRUE(value.status().ok());
  EXPECT_EQ(**value, 4);
  EXPECT_EQ(*std::move(value).value(), 4);

  Result<std::unique_ptr<int>> none{Status(attach_mismatch())};
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.code(), Code::mismatch);
  EXPECT_THROW(static_cast<void>(std::move(none).value()), Error);
}

TEST(Result, LendsTheValueOfOneThatHasAName) {
  Result<std::string> text(std::string("four"));
  text.value() += "ty";
  EXPECT_EQ(text.value(), "fourty");
  EXPECT_EQ(&text.value(), &*text);
  const Result<std::unique_ptr<int>> fixed(std::make_unique<int>(4));
  EXPECT_EQ(*fixed.value(), 4);
  EXPECT_EQ(&fixed.value(), &*fixed);
  static_assert(std::is_same_v<decltype(Result<int>(4).value()), int>, "nothing dangles");

  Result<int> none{Status(attach_mismatch())};
  EXPECT_THROW(static_cast<void>(none.value()), Error);
  EXPECT_THROW(static_cast<void>(std::as_const(none).value()), Error);
}

}  // namespace
}  // namespace weft
