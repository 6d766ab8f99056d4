#include "runtime/guest/guest_address.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <span>
#include <utility>

#include "base/os/fd.hpp"
#include "base/os/folder.hpp"
#include "weft/error.hpp"

namespace weft::guest {
namespace {

using bootstrap::Visit;

constexpr std::string_view kVariable = "WEFT_GUEST_ADDR";

/// An empty string when there is no such file; errno says why. What is longer is no address file.
std::string content_of(const std::string& path) {
  const os::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return {};
  std::array<char, 1024> content{};
  const ssize_t got = ::read(file.get(), content.data(), content.size());
  return {content.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

/// Lines of "address:port", all of one port.
Visit::Where parse_file(const std::string& path, std::string_view content) {
  Visit::Where where;
  while (!content.empty()) {
    const auto end = content.find('\n');
    const std::string_view line = content.substr(0, end);
    content.remove_prefix(end == content.npos ? content.size() : end + 1);
    try {
      const auto address = bootstrap::parse_job_address(line, path);
      if (!address.is_numeric) return {.places = {}, .trouble = path + " holds no addresses"};
      where.places.push_back(bootstrap::resolve(address).places.at(0));
      where.port = address.port;
    } catch (const Error& error) {
      return {.places = {}, .trouble = error.detail().message};
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

GuestAddress parse_guest_address(std::string_view text) {
  GuestAddress address;
  if (text.find('/') != text.npos)
    address.file = text;
  else
    address.fixed = bootstrap::parse_job_address(text, kVariable);
  return address;
}

Visit::Where look_up(const GuestAddress& address) {
  if (!address.file.empty()) {
    const std::string content = content_of(address.file);
    if (!content.empty()) return parse_file(address.file, content);
    return {.places = {}, .trouble = "nobody has written there yet where it listens"};
  }
  auto found = bootstrap::resolve(address.fixed);
  return {.places = std::move(found.places),
          .port = address.fixed.port,
          .trouble = std::move(found.trouble)};
}

AddressFile::AddressFile(std::string path, const std::vector<p2p::Place>& places,
                         std::uint16_t port)
    : path_(std::move(path)) {
  for (const p2p::Place& place : places) content_ += p2p::text(place, port) + '\n';
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
  if (!path_.empty() && content_of(path_) == content_) ::unlink(path_.c_str());
}

}  // namespace weft::guest
