#include "topology/doctor/qdiscs.hpp"

#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/os/fd.hpp"

namespace weft::doctor {
namespace {

/// The kernel's dumps fill at most 32 KiB a message.
constexpr std::size_t kLongest = std::size_t{32} << 10;

template <typename T>
std::optional<T> first_of(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// The rest behind an entry of `length` bytes, of which each starts at a multiple of 4.
std::span<const std::byte> behind(std::span<const std::byte> bytes, std::size_t length) {
  return bytes.subspan(std::min(bytes.size(), (length + 3) / 4 * 4));
}

std::string kind_in(std::span<const std::byte> attributes) {
  while (const auto head = first_of<rtattr>(attributes)) {
    if (head->rta_len < sizeof(rtattr) || head->rta_len > attributes.size()) break;
    if (head->rta_type == TCA_KIND) {
      const auto text = attributes.subspan(sizeof(rtattr), head->rta_len - sizeof(rtattr));
      const auto* begin = reinterpret_cast<const char*>(text.data());
      return {begin, ::strnlen(begin, text.size())};
    }
    attributes = behind(attributes, head->rta_len);
  }
  return {};
}

void add_qdisc(std::span<const std::byte> body, std::vector<Qdisc>& qdiscs) {
  const auto about = first_of<tcmsg>(body);
  if (!about) return;
  std::array<char, IF_NAMESIZE> name{};
  const std::string kind = kind_in(behind(body, sizeof(tcmsg)));
  if (!kind.empty() &&
      ::if_indextoname(static_cast<unsigned>(about->tcm_ifindex), name.data()) != nullptr)
    qdiscs.push_back({name.data(), kind});
}

/// Reads one datagram of the dump. Returns true after its last one.
bool read_messages(std::span<const std::byte> bytes, QdiscAnswer& answer) {
  while (const auto head = first_of<nlmsghdr>(bytes)) {
    if (head->nlmsg_len < sizeof(nlmsghdr) || head->nlmsg_len > bytes.size()) break;
    const auto body = bytes.subspan(sizeof(nlmsghdr), head->nlmsg_len - sizeof(nlmsghdr));
    if (head->nlmsg_type == NLMSG_DONE) return true;
    if (head->nlmsg_type == NLMSG_ERROR) {
      const auto error = first_of<nlmsgerr>(body);
      answer.error = error && error->error != 0 ? -error->error : EIO;
      return true;
    }
    if (head->nlmsg_type == RTM_NEWQDISC) add_qdisc(body, answer.qdiscs);
    bytes = behind(bytes, head->nlmsg_len);
  }
  return false;
}

}  // namespace

QdiscAnswer ask_qdiscs() {
  const os::Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket) return {.error = errno};
  const timeval patience{.tv_sec = 1, .tv_usec = 0};
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  struct Question {
    nlmsghdr head{.nlmsg_len = sizeof(Question),
                  .nlmsg_type = RTM_GETQDISC,
                  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                  .nlmsg_seq = 1,
                  .nlmsg_pid = 0};
    tcmsg about{};
  } question;
  if (::send(socket.get(), &question, sizeof question, 0) < 0) return {.error = errno};
  QdiscAnswer answer;
  std::array<std::byte, kLongest> buffer;
  for (;;) {
    const ssize_t count = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return {.error = count == 0 ? EIO : errno};
    if (read_messages(std::span(buffer).first(static_cast<std::size_t>(count)), answer))
      return answer;
  }
}

}  // namespace weft::doctor
