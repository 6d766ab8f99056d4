// A client that is no rank of the job gets nothing from the Unix sockets at which a host's ranks
// meet.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/os/fd.hpp"
#include "p2p/transport/auth/token_key.hpp"
#include "p2p/transport/shm/shm_messages.hpp"
#include "runtime/world/in_process.hpp"
#include "weft/report.hpp"

namespace weft::p2p {
namespace {

/// The inodes of this process's sockets.
std::set<std::string> own_sockets() {
  std::set<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

/// The addresses at which ranks that this process sees listen. `accepts`: whether the socket of
/// that inode counts.
template <typename Accepts>
std::vector<std::string> listening_where(const Accepts& accepts) {
  std::vector<std::string> names;
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string number, references, protocol, flags, type, state, inode, name;
    words >> number >> references >> protocol >> flags >> type >> state >> inode >> name;
    if (flags == "00010000" && name.starts_with("@weft-") && accepts(inode))
      names.push_back(name.substr(1));
  }
  return names;
}

std::vector<std::string> all_listening() {
  return listening_where([](const std::string&) { return true; });
}

/// The addresses at which ranks of this process listen.
std::vector<std::string> listening() {
  const auto own = own_sockets();
  return listening_where([&](const std::string& inode) { return own.contains(inode); });
}

class UnauthenticatedClient {
 public:
  explicit UnauthenticatedClient(const std::string& name)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path + 1, name.data(), name.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    is_connected_ = ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), size) == 0;
    const timeval patience{.tv_sec = 5, .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  bool is_connected() const { return is_connected_; }
  template <typename Message>
  void send(const Message& message) {
    (void)!::send(socket_.get(), &message, sizeof message, MSG_NOSIGNAL);
  }
  /// Sends the message of an authenticated rank, with memory and an event descriptor.
  void send_with_memory(const ConnectMessage& message) {
    const os::Fd memory(::memfd_create("unauthenticated client", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(memory.get(), static_cast<off_t>(message.control_bytes)), 0);
    const os::Fd event(::eventfd(0, EFD_CLOEXEC));
    const std::array<int, 2> descriptors = {memory.get(), event.get()};
    iovec part{const_cast<ConnectMessage*>(&message), sizeof message};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptors)> control{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof descriptors);
    std::memcpy(CMSG_DATA(rights), descriptors.data(), sizeof descriptors);
    (void)!::sendmsg(socket_.get(), &header, MSG_NOSIGNAL);
  }
  /// Bytes of the next message; 0: the other end has closed it.
  ssize_t receive(void* to, std::size_t size) { return ::recv(socket_.get(), to, size, 0); }
  bool is_closed() {
    std::array<std::byte, 1024> unread;
    ssize_t got = 1;
    while (got > 0) got = receive(unread.data(), unread.size());
    return got == 0 || errno == ECONNRESET;
  }

 private:
  os::Fd socket_;
  bool is_connected_ = false;
};

Config quiet() { return Config().with(Setting::fabric, "shm").with(Setting::log, "off"); }

/// While a job of two ranks runs, `call` attacks every rank's socket as an unauthenticated client.
/// Returns the number of clients that the ranks rejected.
template <typename Call>
std::uint64_t clients_at_a_job(const Call& call) {
  std::atomic<std::uint64_t> rejected_connections{0};
  run_ranks(
      2,
      [&](World& world) {
        if (world.rank() == 0)
          for (const std::string& name : listening()) {
            UnauthenticatedClient client(name);
            if (client.is_connected()) call(client, name);
          }
        // Both ranks can still communicate.
        const SlotSpec spec{.name = "after", .dtype = DType::u8, .shape = {8}};
        auto slot = world.expose(spec);
        auto remote = world.attach(1 - world.rank(), spec);
        const auto tensor = world.allocate(spec.dtype, spec.shape);
        remote.put(tensor).wait().or_throw();
        (void)slot.wait().value();
        rejected_connections += world.report().rejected_connections;
      },
      quiet());
  return rejected_connections;
}

TEST(UnixSocketUnauthenticatedClients, AreRejectedWithGarbage) {
  EXPECT_GE(clients_at_a_job([](UnauthenticatedClient& client, const std::string&) {
              client.send(std::array<char, 100>{});
              EXPECT_TRUE(client.is_closed());
            }),
            2U);
}

TEST(UnixSocketUnauthenticatedClients, AreRejectedAsRanksOfAnotherJobAndToldSo) {
  const Identity other(1, 2, token_key("another job's secret"));
  EXPECT_GE(clients_at_a_job([&](UnauthenticatedClient& client, const std::string&) {
              const Handshake handshake = other.handshake(0, Purpose::memory);
              client.send(HandshakeMessage{.handshake = handshake});
              AnswerMessage answer;
              ASSERT_EQ(client.receive(&answer, sizeof answer),
                        static_cast<ssize_t>(sizeof answer));
              EXPECT_NE(other.validate(handshake, answer.answer).find("of another job"),
                        std::string::npos);
              EXPECT_TRUE(client.is_closed());
            }),
            2U);
}

TEST(UnixSocketUnauthenticatedClients, GetNoMemoryByTheirProcessAlone) {
  // The ranks are threads of this process, so the kernel's credentials of the client are right.
  EXPECT_GE(clients_at_a_job([&](UnauthenticatedClient& client, const std::string& name) {
              const Identity nobody(1, 2, token_key("learns the job's number from an answer"));
              Handshake handshake = nobody.handshake(0, Purpose::memory);
              client.send(HandshakeMessage{.handshake = handshake});
              AnswerMessage answer;
              ASSERT_GT(client.receive(&answer, sizeof answer), 0);
              handshake.job = answer.answer.handshake.job;
              UnauthenticatedClient again(name);
              again.send(HandshakeMessage{.handshake = handshake});
              ConnectMessage proof;
              proof.control_bytes = 1 << 21;
              proof.proof = Proof{answer.answer.mac};
              again.send_with_memory(proof);
              EXPECT_TRUE(again.is_closed());
            }),
            2U);
}

/// A network namespace for this thread and the threads that it starts, while this object lives.
class OwnNetwork {
 public:
  OwnNetwork()
      : before_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)),
        is_own_(before_ && ::unshare(CLONE_NEWNET) == 0) {}
  ~OwnNetwork() {
    if (is_own_) {
      EXPECT_EQ(::setns(before_.get(), CLONE_NEWNET), 0);
    }
  }
  OwnNetwork(const OwnNetwork&) = delete;
  OwnNetwork& operator=(const OwnNetwork&) = delete;
  explicit operator bool() const { return is_own_; }

 private:
  os::Fd before_;
  bool is_own_;
};

/// Threads of this process with another user id, which connect to every rank's socket without end.
class OtherUser {
 public:
  OtherUser() {
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { call_without_end(); });
  }
  ~OtherUser() {
    stopping_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  std::uint64_t calls() const { return calls_; }

 private:
  void call_without_end() {
    constexpr uid_t kNobody = 65534;
    // The raw system call changes one thread, the library's function all threads.
    if (::syscall(SYS_setresuid, -1, kNobody, -1) != 0) return;
    while (!stopping_) {
      const auto names = all_listening();
      for (int round = 0; round < 50 && !stopping_; ++round)
        for (const std::string& name : names)
          if (UnauthenticatedClient(name).is_connected()) ++calls_;
      if (names.empty()) std::this_thread::yield();
    }
  }

  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> calls_{0};
  std::vector<std::thread> threads_;
};

TEST(UnixSocketUnauthenticatedClients, OfAnotherUserKeepNoJobFromStarting) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can play another user";
  const OwnNetwork network;
  if (!network) GTEST_SKIP() << "no network of its own, so that other jobs would be called too";
  const OtherUser clients;
  for (int job = 0; job < 8; ++job) {
    const auto start = Clock::now();
    run_ranks(
        4, [](World&) {}, quiet());
    EXPECT_LE(Clock::now() - start, std::chrono::seconds(4));
  }
  EXPECT_GE(clients.calls(), 8U);
}

}  // namespace
}  // namespace weft::p2p
