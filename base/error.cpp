#include "weft/error.hpp"

#include <cctype>

#include "base/printable.hpp"

namespace weft {
namespace {

/// Where `word` stands in `text` between characters that are neither letters nor digits, so that
/// "rank 1" is not found in "rank 12"; npos: nowhere.
std::size_t find_word(std::string_view text, std::string_view word) {
  const auto is_edge = [text](std::size_t at) {
    return at >= text.size() || std::isalnum(static_cast<unsigned char>(text[at])) == 0;
  };
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1))
    if ((at == 0 || is_edge(at - 1)) && is_edge(at + word.size())) return at;
  return text.npos;
}

bool mentions(std::string_view text, std::string_view word) {
  return find_word(text, word) != text.npos;
}

void join(std::string& line, std::string_view separator, std::string_view part) {
  if (part.empty()) return;
  if (!line.empty()) line += separator;
  line += part;
}

/// The place of the failure, `slot "grad" of rank 3 (host b)`, without the parts that the message
/// has already.
std::string place(const ErrorDetail& detail) {
  std::string text;
  const auto slot = '"' + detail.slot + '"';
  if (!detail.slot.empty() && detail.message.find(slot) == std::string::npos) text = "slot " + slot;
  const auto peer = "rank " + std::to_string(detail.peer);
  if (detail.peer >= 0 && !mentions(detail.message, peer)) join(text, " of ", peer);
  if (!detail.host.empty() && !mentions(detail.message, detail.host)) {
    if (!text.empty())
      join(text, " ", "(host " + detail.host + ')');
    else if (detail.peer < 0)
      text = "host " + detail.host;
  }
  return text;
}

/// The message. Where it names the peer, it has the peer's host too.
std::string message_of(const ErrorDetail& detail) {
  const auto peer = "rank " + std::to_string(detail.peer);
  std::string text = detail.message;
  if (detail.peer < 0 || detail.host.empty() || mentions(text, detail.host)) return text;
  if (const auto at = find_word(text, peer); at != text.npos && place(detail).empty())
    text.insert(at + peer.size(), " (host " + detail.host + ')');
  return text;
}

std::shared_ptr<const ErrorDetail> share(ErrorDetail detail) noexcept {
  try {
    return std::make_shared<const ErrorDetail>(std::move(detail));
  } catch (...) {
    // Short enough for std::string to hold without an allocation.
    static const ErrorDetail no_memory{.code = Code::exhausted, .message = "out of memory"};
    return {std::shared_ptr<const void>(), &no_memory};
  }
}

std::shared_ptr<const std::string> share_text(const ErrorDetail& detail) noexcept {
  try {
    return std::make_shared<const std::string>(detail.text());
  } catch (...) {
    static const std::string no_memory = "out of memory";
    return {std::shared_ptr<const void>(), &no_memory};
  }
}

}  // namespace

std::string_view name(Code code) noexcept {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::timeout:
      return "timeout";
    case Code::peer_failed:
      return "peer_failed";
    case Code::peer_left:
      return "peer_left";
    case Code::closed:
      return "closed";
    case Code::mismatch:
      return "mismatch";
    case Code::duplicate_name:
      return "duplicate_name";
    case Code::writer_taken:
      return "writer_taken";
    case Code::bad_argument:
      return "bad_argument";
    case Code::bad_config:
      return "bad_config";
    case Code::exhausted:
      return "exhausted";
    case Code::unreachable:
      return "unreachable";
    case Code::flow_overrun:
      return "flow_overrun";
    case Code::cancelled:
      return "cancelled";
    case Code::bootstrap:
      return "bootstrap";
    case Code::system:
      return "system";
    case Code::forked:
      return "forked";
    case Code::path_failed:
      return "path_failed";
    case Code::fenced:
      return "fenced";
    case Code::partitioned:
      return "partitioned";
  }
  return "unknown";
}

std::string ErrorDetail::text() const {
  std::string line = operation;
  join(line, ": ", name(code));
  join(line, ": ", place(*this));
  join(line, ": ", message_of(*this));
  if (sequence_expected != 0 || sequence_seen != 0)
    join(line, ", ",
         "expected " + std::to_string(sequence_expected) + ", seen " +
             std::to_string(sequence_seen));
  join(line, "; ", hint);
  return printable(line);  // one line, whatever names and messages contain
}

Error::Error(ErrorDetail detail) : detail_(share(std::move(detail))), text_(share_text(*detail_)) {}

Error::Error(const Status& status)
    : detail_(status.ok() ? share({.code = Code::ok}) : status.shared_detail()),
      text_(share_text(*detail_)) {}

// Defined here so that the type info and vtable of the exception lie in the library, once.
Error::~Error() = default;
const char* Error::what() const noexcept { return text_->c_str(); }

Status Error::status() const noexcept { return Status(detail_); }

Status::Status(ErrorDetail detail) noexcept : detail_(share(std::move(detail))) {}

const ErrorDetail& Status::no_detail() noexcept {
  static const ErrorDetail none{.code = Code::ok};
  return none;
}

std::string Status::text() const { return detail_ ? detail_->text() : "ok"; }

void Status::or_throw() const {
  if (!ok()) throw Error(*this);
}

}  // namespace weft
