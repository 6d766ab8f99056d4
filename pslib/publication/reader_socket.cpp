// A reader's socket: requests, blocking receives and their errors.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>

#include "base/os/system_error.hpp"
#include "p2p/transport/auth/exact_read.hpp"
#include "pslib/publication/reader_state.hpp"

namespace weft::pslib::detail {

void ReaderState::ask(const wire::Ask& ask) {
  // A send error shows when the answer is read, after the data that arrived before.
  (void)p2p::send_record(socket_.get(), ask);
}

void ReaderState::receive(std::span<std::byte> to, Deadline deadline) {
  while (have_ < to.size()) {
    const ssize_t got = ::recv(socket_.get(), to.data() + have_, to.size() - have_, MSG_DONTWAIT);
    if (got > 0)
      have_ += static_cast<std::size_t>(got);
    else
      wait_or_fail(got, deadline);
    if (got > 0 && have_ < to.size() && deadline.left().count() <= 0) fail_late();
  }
  have_ = 0;
}

void ReaderState::wait_or_fail(ssize_t got, Deadline deadline) {
  if (got == 0) fail(Code::peer_failed, "its connection was closed: the process ended");
  if (errno == EINTR) return;
  if (errno == ECONNRESET || errno == EPIPE)
    fail(Code::peer_failed, "its connection was reset: the process ended");
  if (errno == ETIMEDOUT) fail(Code::peer_failed, "its host does not answer any more");
  if (errno != EAGAIN && errno != EWOULDBLOCK)
    fail(Code::path_failed, "its connection broke: " + os::words(errno));
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
  if (left <= 0) fail_late();
  pollfd at{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  // The next receive reports the result.
  (void)::poll(&at, 1,
               static_cast<int>(std::min<std::int64_t>(left, std::numeric_limits<int>::max())));
}

void ReaderState::fail_late() {
  constexpr const char* kGoOn = "the next pull goes on from here, by a longer deadline";
  if (others_)
    fail(Code::timeout,
         fmt::format("nothing was published under this name; its publications: {}",
                     others_->empty() ? "nothing" : *others_),
         "is the name right? does the publisher make it later? then a longer deadline");
  if (specs_.empty())
    fail(Code::timeout, "it accepted this process but does not answer", "is it stopped?");
  if (stage_ != Stage::head)
    fail(Code::timeout,
         fmt::format("version {} is incomplete: {} of {} bytes are missing", head_.version,
                     cursor_.left(), head_.bytes),
         kGoOn);
  fail(Code::timeout,
       version == 0 ? "nothing was published yet"
                    : fmt::format("nothing newer than version {} came", version),
       kGoOn);
}

void ReaderState::fail(Code code, const std::string& message, const std::string& hint) {
  throw Error(ErrorDetail{.code = code,
                          .operation = specs_.empty() ? "join as a subscriber" : "pull",
                          .message = fmt::format("publisher at {}: {}", address_, message),
                          .hint = hint,
                          .slot = name_});
}

void ReaderState::fail_malformed() {
  fail(Code::path_failed, "a malformed message arrived", "is it the same weft at both ends?");
}

}  // namespace weft::pslib::detail
