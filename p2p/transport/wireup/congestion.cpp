#include "p2p/transport/wireup/congestion.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>

#include "base/os/fd.hpp"

namespace weft::p2p {
namespace {

/// As long as the kernel lets a name be, with the end.
constexpr std::size_t kName = 16;

os::Fd any_socket() {
  os::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) socket = os::Fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return socket;
}

bool set(int socket, const std::string& name) noexcept {
  return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                      static_cast<socklen_t>(name.size())) == 0;
}

std::string system_name() {
  const os::Fd socket = any_socket();
  std::array<char, kName> name{};
  socklen_t size = name.size() - 1;
  if (!socket || ::getsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0)
    return {};
  return name.data();
}

bool is_taken(const std::string& name) {
  const os::Fd socket = any_socket();
  return socket && set(socket.get(), name);
}

}  // namespace

CongestionControl::CongestionControl(std::string_view asked)
    : CongestionControl(asked, system_name(), is_taken) {}

CongestionControl::CongestionControl(std::string_view asked, const std::string& system,
                                     const Takes& takes) {
  if (asked == "system") return;
  if (asked != "auto" && !asked.empty()) {
    if (takes(std::string(asked))) {
      name_ = asked;
      return;
    }
    is_refused_ = true;
    words_ = fmt::format(
        "WEFT_TCP_CONGESTION=\"{}\": this host does not have it or does not allow it, connections "
        "have {}; sysctl net.ipv4.tcp_allowed_congestion_control lists what is allowed",
        asked, system);
    return;
  }
  if (!system.starts_with("bbr")) return;
  for (const char* const other : {"cubic", "reno"}) {
    if (!takes(other)) continue;
    name_ = other;
    words_ = fmt::format(
        "TCP connections have {} in place of the system's {}, whose pacing delays answers; "
        "WEFT_TCP_CONGESTION=system leaves it",
        other, system);
    return;
  }
  words_ = fmt::format(
      "the system's congestion control is {}, whose pacing delays answers, and no other is "
      "allowed; sysctl net.ipv4.tcp_congestion_control=cubic changes it",
      system);
}

void CongestionControl::tell(Log& log) const {
  if (!words_.empty()) log.warn(Subsystem::path, "{}", words_);
}

void CongestionControl::apply(int socket) const noexcept {
  if (!name_.empty()) (void)set(socket, name_);
}

}  // namespace weft::p2p
