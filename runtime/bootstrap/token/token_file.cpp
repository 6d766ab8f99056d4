#include "runtime/bootstrap/token/token_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "base/fail.hpp"
#include "base/os/fd.hpp"
#include "base/os/system_error.hpp"
#include "p2p/transport/auth/token_key.hpp"
#include "weft/error.hpp"

namespace weft::bootstrap {
namespace {

/// A token file by the name that its user gave, for error messages.
struct Named {
  const std::string& path;
  const p2p::TokenUse use;

  [[noreturn]] void refuse(const std::string& why, const std::string& hint) const {
    const bool subscribers = use == p2p::TokenUse::subscribers;
    throw_error(
        Code::bad_config, subscribers ? "subscribers" : "join",
        fmt::format("{}=\"{}\": {}", subscribers ? "WEFT_SUBSCRIBE_TOKEN_FILE" : "WEFT_TOKEN_FILE",
                    path, why),
        hint);
  }
};

/// Checks owner and mode of the opened file, not of its name, which may refer to another file by
/// now.
void check_guarded(const Named& named, int fd) {
  struct stat about {};
  if (::fstat(fd, &about) != 0) named.refuse(os::words(errno), "");
  if (!S_ISREG(about.st_mode)) named.refuse("it is no regular file", "name a file with a token");
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    named.refuse(
        fmt::format("its mode is {:04o}: others than its owner may use it", about.st_mode & 07777U),
        fmt::format("chmod 600 {}; and draw a new token if others may have read it", named.path));
  if (about.st_uid != ::geteuid() && about.st_uid != 0)
    named.refuse(
        fmt::format("it belongs to user {}, this process is user {}'s", about.st_uid, ::geteuid()),
        "a token file must belong to its user or to root");
}

/// The reason to refuse a token of that length; empty for a good one.
std::string wrong_length(std::size_t length) {
  if (length > kTokenMost) return fmt::format("a token of more than {} bytes", kTokenMost);
  if (length < kTokenLeast)
    return fmt::format("a token of {} bytes, fewer than {}", length, kTokenLeast);
  return {};
}

/// A token without the white space around it.
std::string_view stripped(std::string_view token) {
  constexpr std::string_view kSpace = " \t\r\n";
  token.remove_prefix(std::min(token.find_first_not_of(kSpace), token.size()));
  return token.substr(0, token.find_last_not_of(kSpace) + 1);
}

}  // namespace

p2p::Identity::Secret read_token(const std::string& path, p2p::TokenUse use) {
  const Named named{path, use};
  const os::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file)
    named.refuse(os::words(errno),
                 use == p2p::TokenUse::subscribers
                     ? "name a file with the subscribers' token, the same at both ends"
                     : "name a file with the job's token, the same for every rank");
  check_guarded(named, file.get());
  std::array<char, kTokenMost + 1> content{};
  std::size_t size = 0;
  while (size < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) named.refuse(os::words(errno), "");
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  const std::string_view token = stripped({content.data(), size});
  if (const std::string wrong = wrong_length(token.size()); !wrong.empty()) {
    p2p::wipe(content.data(), content.size());
    named.refuse(wrong, "draw one: (umask 077; openssl rand -hex 32 > FILE)");
  }
  const auto key = p2p::token_key(token, use);
  p2p::wipe(content.data(), content.size());
  return key;
}

p2p::Identity::Secret given_token(std::string_view token) {
  token = stripped(token);
  if (const std::string wrong = wrong_length(token.size()); !wrong.empty())
    throw_error(Code::bad_config, "join", "the token given: " + wrong,
                "give the same random token of at least 32 bytes to every rank");
  return p2p::token_key(token);
}

}  // namespace weft::bootstrap
