#include "runtime/subscribe/subscriber_address.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <span>
#include <utility>

#include "base/os/fd.hpp"
#include "base/os/folder.hpp"
#include "base/os/system_error.hpp"
#include "weft/error.hpp"

namespace weft::subscribe {
namespace {

using bootstrap::RootConnection;

constexpr std::string_view kVariable = "WEFT_SUBSCRIBE_ADDR";

/// The content of an address file, at most 1024 bytes; `trouble` is set if it cannot be read.
struct Content {
  std::string text;
  std::string trouble{};
};

Content content_of(const std::string& path) {
  const auto refused = [&](const std::string& why) {
    return Content{.text = {}, .trouble = fmt::format("{}: {}", path, why)};
  };
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  const os::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file)
    return refused(errno == ENOENT ? "no publisher has written its address there yet"
                                   : os::words(errno));
  struct stat kind {};
  if (::fstat(file.get(), &kind) != 0 || !S_ISREG(kind.st_mode)) return refused("it is no file");
  std::array<char, 1024> content{};
  const ssize_t got = ::read(file.get(), content.data(), content.size());
  if (got < 0) return refused(os::words(errno));
  if (got == 0) return refused("no publisher has written its address there yet");
  return {{content.data(), static_cast<std::size_t>(got)}};
}

/// Parses lines of "address:port". All lines are expected to have the same port.
RootConnection::Where parse_file(const std::string& path, std::string_view content) {
  RootConnection::Where where;
  while (!content.empty()) {
    const auto end = content.find('\n');
    const std::string_view line = content.substr(0, end);
    content.remove_prefix(end == content.npos ? content.size() : end + 1);
    try {
      const auto address = bootstrap::parse_job_address(line, path);
      if (!address.is_numeric) return {.ips = {}, .trouble = path + " holds no addresses"};
      where.ips.push_back(bootstrap::resolve(address).ips.at(0));
      where.port = address.port;
    } catch (const Error& error) {
      return {.ips = {}, .trouble = error.detail().message};
    }
  }
  return where;
}

void write_whole(const std::string& path, std::string_view content) {
  const std::filesystem::path named(path);
  const auto parent = named.parent_path();
  os::Draft draft(os::Folder::open(parent.empty() ? "." : parent, "publish"),
                  named.filename().native());
  draft.write(std::as_bytes(std::span(content)));
  draft.publish();
}

}  // namespace

SubscriberAddress parse_subscriber_address(std::string_view text) {
  SubscriberAddress address;
  if (text.find('/') != text.npos)
    address.file = text;
  else
    address.fixed = bootstrap::parse_job_address(text, kVariable);
  return address;
}

RootConnection::Where look_up(const SubscriberAddress& address) {
  if (!address.file.empty()) {
    Content content = content_of(address.file);
    if (content.trouble.empty()) return parse_file(address.file, content.text);
    return {.ips = {}, .trouble = std::move(content.trouble)};
  }
  auto found = bootstrap::resolve(address.fixed);
  return {
      .ips = std::move(found.ips), .port = address.fixed.port, .trouble = std::move(found.trouble)};
}

AddressFile::AddressFile(std::string path, const std::vector<p2p::IpAddress>& ips,
                         std::uint16_t port)
    : path_(std::move(path)) {
  for (const p2p::IpAddress& ip : ips) content_ += p2p::text(ip, port) + '\n';
  write_whole(path_, content_);
}

AddressFile::AddressFile(AddressFile&& other) noexcept
    : path_(std::exchange(other.path_, {})), content_(std::move(other.content_)) {}

AddressFile& AddressFile::operator=(AddressFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(content_, other.content_);
  return *this;
}

AddressFile::~AddressFile() {
  if (!path_.empty() && content_of(path_).text == content_) ::unlink(path_.c_str());
}

}  // namespace weft::subscribe
