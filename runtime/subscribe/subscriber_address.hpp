// WEFT_SUBSCRIBE_ADDR: the address at which subscribers reach a publisher.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "p2p/transport/address/ip_address.hpp"
#include "runtime/bootstrap/token/job_address.hpp"
#include "runtime/bootstrap/token/root_connection.hpp"

namespace weft::subscribe {

/// An address, or a file that contains one once a publisher listens.
struct SubscriberAddress {
  std::string file;               ///< if empty, `fixed` is used
  bootstrap::JobAddress fixed{};  ///< used if `file` is empty

  std::string text() const { return file.empty() ? fixed.text() : file; }
};

/// Parses WEFT_SUBSCRIBE_ADDR. A text that contains a slash is a file name. Throws
/// Error(bad_config).
SubscriberAddress parse_subscriber_address(std::string_view text);

/// Returns where to connect now: the present content of the file, or the addresses of the name.
bootstrap::RootConnection::Where look_up(const SubscriberAddress& address);

/// A file with the publisher's address, which exists as long as this object. Replaced atomically,
/// with mode 0600; removed by the destructor unless another publisher has replaced it. Move-only.
class AddressFile {
 public:
  AddressFile() noexcept = default;
  /// Throws Error(system).
  AddressFile(std::string path, const std::vector<p2p::IpAddress>& ips, std::uint16_t port);
  AddressFile(AddressFile&& other) noexcept;
  AddressFile& operator=(AddressFile&& other) noexcept;
  ~AddressFile();

  /// True if another publisher's address was in the file: of one that still runs, or was killed.
  bool has_replaced_another() const noexcept { return has_replaced_another_; }

 private:
  std::string path_;
  std::string content_;
  bool has_replaced_another_ = false;
};

}  // namespace weft::subscribe
