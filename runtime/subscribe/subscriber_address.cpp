#include "runtime/subscribe/subscriber_address.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "base/os/folder.hpp"
#include "base/os/named_file.hpp"
#include "weft/error.hpp"

namespace weft::subscribe {
namespace {

using bootstrap::RootConnection;

constexpr std::string_view kVariable = "WEFT_SUBSCRIBE_ADDR";

/// The longest address file: several hundred addresses.
constexpr std::size_t kMost = 1 << 14;

/// The numeric address that is the whole of `line`.
std::optional<bootstrap::JobAddress> address_in(std::string_view line) {
  try {
    auto address = bootstrap::parse_job_address(line, kVariable);
    if (address.is_numeric) return address;
  } catch (const Error& error) {
    if (error.code() != Code::bad_config) throw;
  }
  return std::nullopt;
}

/// Parses lines of "address:port". All lines are expected to have the same port. A text never has a
/// line of the file, which may be another file than the user thinks.
RootConnection::Where parse_file(const std::string& path, std::string_view content) {
  RootConnection::Where where;
  for (int number = 1; !content.empty(); ++number) {
    const auto end = content.find('\n');
    const std::string_view line = content.substr(0, end);
    content.remove_prefix(end == content.npos ? content.size() : end + 1);
    const auto address = address_in(line);
    if (!address)
      return {.ips = {},
              .trouble = fmt::format("{}: line {}, of {} bytes, is no address as a publisher "
                                     "writes it",
                                     path, number, line.size())};
    where.ips.push_back(bootstrap::resolve(*address).ips.at(0));
    where.port = address->port;
  }
  return where;
}

/// The addresses that the file has now.
RootConnection::Where read_file(const std::string& path) {
  try {
    const auto content = os::find_own_file(path, kMost, "join as a subscriber");
    if (content && !content->empty()) return parse_file(path, *content);
  } catch (const Error& error) {
    return {.ips = {}, .trouble = error.detail().message};
  }
  return {.ips = {}, .trouble = path + ": no publisher has written its address there yet"};
}

/// True if the file at `path` has this content now.
bool is_still(const std::string& path, std::string_view content) noexcept {
  try {
    return os::find_own_file(path, kMost, "publish") == content;
  } catch (const std::exception&) {
    return false;
  }
}

/// True if the file at `path` has an address that differs from this content.
bool has_another(const std::string& path, std::string_view content) noexcept {
  try {
    const auto now = os::find_own_file(path, kMost, "publish");
    return now && !now->empty() && *now != content;
  } catch (const std::exception&) {
    return false;  // writing it says what is wrong
  }
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
  if (!address.file.empty()) return read_file(address.file);
  auto found = bootstrap::resolve(address.fixed);
  return {
      .ips = std::move(found.ips), .port = address.fixed.port, .trouble = std::move(found.trouble)};
}

AddressFile::AddressFile(std::string path, const std::vector<p2p::IpAddress>& ips,
                         std::uint16_t port)
    : path_(std::move(path)) {
  for (const p2p::IpAddress& ip : ips) content_ += p2p::text(ip, port) + '\n';
  has_replaced_another_ = has_another(path_, content_);
  write_whole(path_, content_);
}

AddressFile::AddressFile(AddressFile&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      content_(std::move(other.content_)),
      has_replaced_another_(other.has_replaced_another_) {}

AddressFile& AddressFile::operator=(AddressFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(content_, other.content_);
  std::swap(has_replaced_another_, other.has_replaced_another_);
  return *this;
}

AddressFile::~AddressFile() {
  if (!path_.empty() && is_still(path_, content_)) ::unlink(path_.c_str());
}

}  // namespace weft::subscribe
