#include "p2p/transport/shm/link.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/os/descriptor_limit.hpp"

namespace weft::p2p {
namespace {

/// Until the others get their turn.
constexpr int kMessagesAtATime = 64;

}  // namespace

Link::Process Link::Process::of_peer(int socket) noexcept {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
    return {.pid = 0, .uid = static_cast<uid_t>(-1)};
  return {.pid = credentials.pid, .uid = credentials.uid};
}

Link::Link(Id id, ProgressThread& progress, os::Fd socket, OnMessage on_message, OnEnd on_end)
    : id_(id),
      progress_(progress),
      socket_(std::move(socket)),
      peer_(Process::of_peer(socket_.get())),
      on_message_(std::move(on_message)),
      on_end_(std::move(on_end)) {
  progress_.watch(socket_.get(), EPOLLIN, [this](std::uint32_t events) {
    if ((events & EPOLLOUT) != 0) flush();
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) receive();
  });
}

Link::~Link() {
  if (!ended_) progress_.forget(socket_.get());
}

void Link::send(std::span<const std::byte> message, std::span<const int> descriptors) {
  if (ended_) return;
  if (queue_.empty() && transmit(message, descriptors)) return;
  if (ended_) return;
  queue_.push_back({{message.begin(), message.end()}, {descriptors.begin(), descriptors.end()}});
  progress_.change(socket_.get(), EPOLLIN | EPOLLOUT);
}

bool Link::transmit(std::span<const std::byte> message, std::span<const int> descriptors) noexcept {
  iovec part{const_cast<std::byte*>(message.data()), message.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxDescriptors)> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  for (;;) {
    if (::sendmsg(socket_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return true;
    if (errno == EINTR) continue;
    // A broken connection shows as an end of input too, which is where it is dealt with.
    return errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS && errno != ETOOMANYREFS;
  }
}

void Link::flush() noexcept {
  while (!queue_.empty()) {
    if (!transmit(queue_.front().bytes, queue_.front().descriptors)) return;
    queue_.pop_front();
  }
  progress_.change(socket_.get(), EPOLLIN);
}

bool Link::send_rest() noexcept {
  if (ended_) return true;
  std::byte dropped{};
  for (int i = 0; i < kMessagesAtATime; ++i)
    if (::recv(socket_.get(), &dropped, 1, MSG_DONTWAIT | MSG_TRUNC) <= 0) break;
  while (!queue_.empty() && transmit(queue_.front().bytes, queue_.front().descriptors))
    queue_.pop_front();
  return queue_.empty();
}

bool Link::receive() {
  alignas(8) std::array<std::byte, kMaxMessage> bytes;
  for (int i = 0; i < kMessagesAtATime && !ended_; ++i) {
    iovec part{bytes.data(), bytes.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxDescriptors)> control{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const ssize_t size = ::recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // A peer that closed before it had read everything resets the connection; what it had sent is
    // still there, behind the error.
    if (size < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    std::vector<os::Fd> descriptors;
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
        descriptors.emplace_back(fd);
      }
    }
    if (size <= 0 || (header.msg_flags & MSG_TRUNC) != 0) {
      end();
      return false;
    }
    const bool is_truncated = (header.msg_flags & MSG_CTRUNC) != 0;
    // Descriptors of this process are used up: the message came, its descriptors did not. A peer
    // that sends too many truncates them too, and that is no shortage.
    lost_descriptors_ = is_truncated && descriptors.size() < kMaxDescriptors;
    if (lost_descriptors_) os::note_descriptor_shortage();
    if (is_truncated) descriptors.clear();
    on_message_(*this, std::span(bytes).first(static_cast<std::size_t>(size)),
                std::move(descriptors));
  }
  return !ended_;
}

void Link::end() {
  ended_ = true;
  queue_.clear();
  progress_.forget(socket_.get());
  on_end_(*this);
}

}  // namespace weft::p2p
