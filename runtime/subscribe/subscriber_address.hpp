// WEFT_SUBSCRIBE_ADDR: where subscribers and a process that publishes find each other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "p2p/transport/address/ip_address.hpp"
#include "runtime/bootstrap/token/job_address.hpp"
#include "runtime/bootstrap/token/root_connection.hpp"

namespace weft::subscribe {

/// An address, or a file that has one as soon as somebody listens.
struct SubscriberAddress {
  std::string file;               ///< empty: `fixed` counts
  bootstrap::JobAddress fixed{};  ///< where `file` is empty

  std::string text() const { return file.empty() ? fixed.text() : file; }
};

/// A text with a slash in it is a file. Throws Error(bad_config).
SubscriberAddress parse_subscriber_address(std::string_view text);

/// Where to call now: what the file has at present, or what a name stands for.
bootstrap::RootConnection::Where look_up(const SubscriberAddress& address);

/// A file that says where to call, for as long as this lives. It is replaced as a whole, of mode
/// 0600, and removed at the end unless somebody else has replaced it by then. Move-only.
class AddressFile {
 public:
  AddressFile() noexcept = default;
  /// Throws Error(system).
  AddressFile(std::string path, const std::vector<p2p::IpAddress>& ips, std::uint16_t port);
  AddressFile(AddressFile&& other) noexcept;
  AddressFile& operator=(AddressFile&& other) noexcept;
  ~AddressFile();

 private:
  std::string path_;
  std::string content_;
};

}  // namespace weft::subscribe
