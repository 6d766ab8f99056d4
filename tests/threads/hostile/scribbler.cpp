#include "tests/threads/hostile/scribbler.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "p2p/memory/arena.hpp"
#include "p2p/message/control.hpp"
#include "p2p/rendezvous/rendezvous_messages.hpp"
#include "p2p/signal/signal_messages.hpp"
#include "p2p/slot/attach/slot_messages.hpp"
#include "p2p/transport/control_message.hpp"
#include "p2p/transport/shm/shm_messages.hpp"
#include "runtime/collective/collective_messages.hpp"

namespace weft::tests {
namespace {

using p2p::MessageType;

constexpr std::size_t kMostAims = 4096;
constexpr std::size_t kLookedAt = std::size_t{1} << 20;  // bytes from the front of each mapping

struct Descriptors {
  std::set<std::uint64_t> memory;  ///< inodes of this rank's own segments
  std::vector<int> sockets;
};

Descriptors descriptors() {
  Descriptors found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    struct stat about {};
    if (::fstat(fd, &about) != 0) continue;
    std::error_code none;
    if (std::filesystem::read_symlink(entry.path(), none).string().starts_with("/memfd:"))
      found.memory.insert(about.st_ino);
    int type = 0;
    socklen_t size = sizeof type;
    sockaddr_storage peer{};
    socklen_t room = sizeof peer;
    if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET &&
        ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &room) == 0)
      found.sockets.push_back(fd);
  }
  return found;
}

std::size_t size_of_message(MessageType type) {
  switch (type) {
    case MessageType::attach:
      return sizeof(p2p::AttachMessage);
    case MessageType::attached:
      return sizeof(p2p::AttachedMessage);
    case MessageType::refused:
      return sizeof(p2p::RefusedMessage);
    case MessageType::detach:
      return sizeof(p2p::DetachMessage);
    case MessageType::closed_agreed:
      return sizeof(p2p::ClosedAgreedMessage);
    case MessageType::credit_wanted:
      return sizeof(p2p::CreditWantedMessage);
    case MessageType::flow_question:
      return sizeof(p2p::FlowQuestionMessage);
    case MessageType::flow_answer:
      return sizeof(p2p::FlowAnswerMessage);
    case MessageType::adopted:
      return sizeof(p2p::AdoptedMessage);
    case MessageType::rendezvous:
      return sizeof(p2p::RendezvousOnControl);
    case MessageType::collective:
      return sizeof(detail::CollectiveMessage);
    case MessageType::ring_wanted:
      return sizeof(p2p::message::RingWanted);
    case MessageType::ring_granted:
      return sizeof(p2p::message::RingGranted);
    case MessageType::ring_refused:
      return sizeof(p2p::message::RingRefused);
    case MessageType::signal_wanted:
      return sizeof(p2p::SignalWanted);
    case MessageType::signal_given:
      return sizeof(p2p::SignalGranted);
    case MessageType::signal_act:
      return sizeof(p2p::SignalRequest);
    case MessageType::signal_reply:
      return sizeof(p2p::SignalReply);
    case MessageType::chunk_wanted:
    case MessageType::forget:
      return sizeof(p2p::ChunkWantedMessage);
    default:
      return 16;
  }
}

}  // namespace

Scribbler::Plan Scribbler::Plan::of(unsigned seed) {
  Plan plan{.seed = seed};
  switch (seed % 4) {
    case 0:
      plan.own = false;
      break;
    case 1:
      plan.theirs = false;
      break;
    case 2:
      break;
    default:
      plan.theirs = plan.own = false;
      plan.messages = true;
  }
  constexpr std::array<unsigned, 3> kPauses{5, 50, 500};
  plan.pause_us = kPauses[seed / 4 % kPauses.size()];
  return plan;
}

Scribbler::Scribbler(const Plan& plan)
    : plan_(plan), random_(plan.seed), thread_([this] { work(); }) {}

Scribbler::~Scribbler() {
  over_.store(true);
  thread_.join();
}

void Scribbler::work() {
  auto next_look = std::chrono::steady_clock::now();
  while (!over_.load()) {
    if (std::chrono::steady_clock::now() >= next_look) {
      look();
      next_look = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
    }
    scribble();
    if (plan_.messages) send_nonsense();
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % plan_.pause_us));
  }
}

/// Memory changes during the scan; a cache line with a nonzero word counts as in use.
void Scribbler::look() {
  const Descriptors held = descriptors();
  sockets_ = held.sockets;
  aims_.clear();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto name = line.find("/memfd:weft-");
    if (name == std::string::npos) continue;
    std::istringstream text(line);
    std::string range;
    std::string rights;
    std::string skipped;
    std::uint64_t inode = 0;
    text >> range >> rights >> skipped >> skipped >> inode;
    const bool is_own = held.memory.contains(inode);
    if (rights[1] != 'w' || !(is_own ? plan_.own : plan_.theirs)) continue;
    const std::uint64_t first = std::stoull(range, nullptr, 16);
    const std::uint64_t last = std::stoull(range.substr(range.find('-') + 1), nullptr, 16);
    look_through({reinterpret_cast<Word*>(first),
                  std::min<std::size_t>(last - first, kLookedAt) / sizeof(Word)});
  }
}

void Scribbler::look_through(std::span<Word> words) {
  for (std::size_t line = 0; line + 8 <= words.size(); line += 8) {
    bool used = false;
    for (std::size_t i = 0; i < 8; ++i)
      used = used || words[line + i].load(std::memory_order_relaxed) != 0;
    if (!used) continue;
    // A few lines of a tensor are enough, wherever it lies.
    const std::size_t place = aims_.size() < kMostAims ? aims_.size() : random_() % kMostAims;
    if (place == aims_.size()) aims_.resize(place + 8);
    for (std::size_t i = 0; i < 8 && place + i < aims_.size(); ++i)
      aims_[place + i] = &words[line + i];
  }
}

std::uint64_t Scribbler::value_for(std::uint64_t now) {
  switch (random_() % 10) {
    case 0:
      return random_();
    case 1:
      return ~std::uint64_t{0};
    case 2:
      return std::uint64_t{1} << random_() % 64;
    case 3:
      return now ^ std::uint64_t{1} << random_() % 64;
    case 4:
      return now + (std::uint64_t{1} << random_() % 64);
    case 5:
      return now - 1;
    case 6:
      return now | std::uint64_t{0xffffffff} << 32;
    case 7:
      return *aims_[random_() % aims_.size()];
    case 8:
      return random_() % 64;
    default:
      return now + 1 + random_() % 4;
  }
}

void Scribbler::scribble() {
  if (aims_.empty()) return;
  Word& word = *aims_[random_() % aims_.size()];
  const std::uint64_t before = word.load();
  word.store(value_for(before));
  if (chance(2)) return;
  // Half of the words are restored soon, so that the job goes on and reaches more code.
  if (chance(2)) std::this_thread::yield();
  word.store(before);
}

void Scribbler::send_nonsense() {
  if (sockets_.empty()) return;
  const auto type =
      static_cast<MessageType>(random_() % (static_cast<unsigned>(MessageType::flow_answer) + 1));
  // A rank may send these messages at any time; they would end the job for it.
  if (type == MessageType::leaving || type == MessageType::ending) return;
  alignas(8) std::array<std::uint64_t, p2p::Channel::kMaxMessage / 8> words{};
  for (auto& word : words) {
    const std::uint64_t chunk = (random_() % 6) << 24 | random_() % 3;
    const std::array<std::uint64_t, 6> values{
        0,        random_() % 16, chunk, random_() % 65536 * 64, std::uint64_t{1} << random_() % 64,
        random_()};
    word = values[random_() % values.size()];
  }
  std::memcpy(words.data(), &type, sizeof type);
  const std::size_t bytes = chance(16) ? random_() % sizeof words : size_of_message(type);
  (void)::send(sockets_[random_() % sockets_.size()], words.data(), bytes,
               MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace weft::tests
