#include "tests/unit/docs/figures.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "runtime/world/descriptor_need.hpp"

namespace weft::docs {
namespace {

constexpr std::array kRanks{16.0, 1000.0, 10000.0};

/// "15 872", "3.0 million"
std::string count(double number) {
  if (number >= 1e6) return fmt::format("{:.{}f} million", number / 1e6, number < 1e7 ? 1 : 0);
  std::string text = fmt::format("{:.0f}", number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, " ");
  return text;
}

/// "8.9 KiB", "555 KiB"
std::string bytes(double number) {
  std::size_t unit = 0;
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB"};
  for (; number >= 1000 && unit + 1 < kUnits.size(); ++unit) number /= 1024;
  return fmt::format("{:.{}f} {}", number, unit > 0 && number < 10 ? 1 : 0, kUnits[unit]);
}

/// A row with the formula's value for each number of ranks.
template <typename Formula, typename Text>
std::string row(const std::string& cost, const std::string& words, Formula formula, Text text) {
  std::string line = fmt::format("| {} | {} |", cost, words);
  for (const double ranks : kRanks) line += fmt::format(" {} |", text(formula(ranks)));
  return line;
}

std::string row(const std::string& cost, const std::string& words) {
  return fmt::format("| {} | {} |", cost, words);
}

std::string message_sizes(const Sizes& sizes) {
  return row("messages: handshake, answer, connect, attach, attached, chunk, leaving",
             fmt::format("{}", fmt::join(sizes.messages, ", ")));
}

void add_sizes(const Sizes& s, std::vector<Block>& blocks) {
  const auto n = [](std::size_t number) { return count(static_cast<double>(number)); };
  blocks.push_back({row(
      "`RankAddress`, in the bootstrap fence",
      fmt::format("{}, of which {} are the processors it may run on", n(s.address), n(s.cpus)))});
  blocks.push_back(
      {row("`Peer` + `Link` + `ShmChannel` + the shm fabric's `Partner`, per peer on the heap",
           fmt::format("{} + {} + {} + {} = {}", n(s.peer), n(s.link), n(s.channel), n(s.partner),
                       n(s.per_peer())))});
  blocks.push_back({row("`PutOwner`, or `Publisher`, per exposed slot",
                        fmt::format("{}, or {}", n(s.slot), n(s.published_slot))),
                    row("`Attachment`, per attached peer", n(s.attachment)),
                    row("`PutWriter`, or `VersionReader`, per attached slot",
                        fmt::format("{}, from its first pending put on {} more, the places for 64 "
                                    "of them; or {}",
                                    n(s.remote_slot), n(s.pending), n(s.reader))),
                    message_sizes(s)});
}

void add_peers(const Sizes& s, std::vector<Block>& blocks) {
  const auto address = static_cast<double>(s.address);
  const auto peer = static_cast<double>(s.per_peer());
  using detail::kDescriptors;
  using detail::kDescriptorsPerRank;
  const auto descriptors = [](double ranks) { return kDescriptors + kDescriptorsPerRank * ranks; };
  const std::string formula = fmt::format("{} + {} N", kDescriptors, kDescriptorsPerRank);
  blocks.push_back({row(
                        "fence, received per rank", fmt::format("{} N", count(address)),
                        [&](double ranks) { return address * ranks; }, bytes),
                    row(
                        "fence, received in the job", fmt::format("{} N²", count(address)),
                        [&](double ranks) { return address * ranks * ranks; }, bytes),
                    row(
                        "peers on the heap, per rank", fmt::format("{} N", count(peer)),
                        [&](double ranks) { return peer * ranks; }, bytes),
                    row("descriptors per rank", formula, descriptors, count),
                    row(
                        "descriptors per host", fmt::format("N ({})", formula),
                        [&](double ranks) { return ranks * descriptors(ranks); }, count)});
  blocks.push_back({fmt::format(
      "| fence with everybody's address | about 10 000 ranks, {} each | a PMIx fence without "
      "collecting; addresses asked for on first use. The processor set belongs to ranks of one "
      "host "
      "only: {} bytes remain |",
      bytes(address * 10000), count(static_cast<double>(s.address - s.cpus)))});
}

void add_slots(const Sizes& s, std::vector<Block>& blocks) {
  const auto slot = count(static_cast<double>(s.slot));
  const auto attachment = count(static_cast<double>(s.attachment));
  const auto remote = count(static_cast<double>(s.remote_slot));
  const auto reader = count(static_cast<double>(s.reader));
  blocks.push_back(
      {fmt::format("| put slot | {} + {} per rank that has written; 64 d in the control arena; d × "
                   "the tensor, rounded up to 64, if it has more than 56 bytes | {}; 64 in the "
                   "control arena |",
                   slot, attachment, remote),
       fmt::format("| dynamic slot | as a put slot of 16 bytes and 8 per dimension; each arrival "
                   "its own tensor | {} + {}; 64 in the control arena; what is lent |",
                   remote, count(static_cast<double>(s.pending))),
       fmt::format(
           "| published slot | {} + {} per reader at a time; 8 (d + 1) and 8 + d per reader "
           "at a time, rounded up to 64, in the control arena; d × the tensor | {}; 64 in "
           "the control arena |",
           count(static_cast<double>(s.published_slot)), attachment, reader)});
  // All that a table attaches is published.
  const auto each = [](std::size_t size) {
    return [size](double ranks) {
      return static_cast<double>(size) * (2 * ranks + std::ceil(std::log2(ranks)));
    };
  };
  blocks.push_back(
      {row("their heap", fmt::format("{} (2 N + ⌈log₂ N⌉)", reader), each(s.reader), bytes),
       row("attachments, heap", fmt::format("{} (2 N + ⌈log₂ N⌉)", attachment), each(s.attachment),
           bytes)});
}

/// Rows for RDMA, with one queue pair per peer.
void add_verbs(const Sizes& s, std::vector<Block>& blocks) {
  if (s.verbs_channel == 0) return;
  constexpr double kDepth = 1024;
  constexpr double kShallow = 64;
  constexpr double kEntry = 64;   // of a queue pair, for each work request
  constexpr double kTalkTo = 32;  // peers, on first use
  const auto idle = static_cast<double>(s.peer + s.verbs_channel + s.stripe);
  const auto pair = static_cast<double>(s.queue_pair);
  const auto peer = [&](double depth) { return idle + kEntry * depth + pair; };
  blocks.push_back({fmt::format(
      "| heap: `Peer`, `VerbsChannel`, stripes; `QueuePair`s | {} + 64 D + {} Q | {} B | {} B |",
      count(idle), count(pair), count(peer(kDepth)), count(idle))});
  Block rows;
  for (const double ranks : kRanks) {
    const double talk_to = std::min(ranks, kTalkTo);
    const std::string all = bytes(ranks * peer(kDepth));
    rows.push_back(fmt::format(
        "|{}| {} | {} | {} | {}{} |", ranks < kTalkTo ? " heap " : " ", count(ranks), all,
        bytes(talk_to * peer(kDepth) + (ranks - talk_to) * idle), all,
        ranks < kTalkTo ? "" : fmt::format("; {} with D = 64", bytes(ranks * peer(kShallow)))));
  }
  blocks.push_back(std::move(rows));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// "| first cell |"
std::string key_of(const std::string& line) {
  const std::size_t second = line.find('|', 1);
  return line.substr(0, second == std::string::npos ? line.size() : second + 1);
}

}  // namespace

std::vector<Block> figures(const Sizes& sizes) {
  std::vector<Block> blocks;
  add_sizes(sizes, blocks);
  add_peers(sizes, blocks);
  add_slots(sizes, blocks);
  add_verbs(sizes, blocks);
  return blocks;
}

std::string with_figures(const std::string& document, const std::vector<Block>& blocks) {
  std::vector<std::string> lines = lines_of(document);
  for (const Block& block : blocks) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < lines.size(); ++i)
      if (key_of(lines[i]) == key_of(block.front())) places.push_back(i);
    if (places.size() != 1)
      throw std::runtime_error(
          fmt::format("{} lines begin with {}, not one", places.size(), key_of(block.front())));
    for (std::size_t i = 0; i < block.size(); ++i) {
      if (places[0] + i >= lines.size() || key_of(lines[places[0] + i]) != key_of(block[i]))
        throw std::runtime_error(fmt::format("no line begins with {} after {}", key_of(block[i]),
                                             key_of(block.front())));
      lines[places[0] + i] = block[i];
    }
  }
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

}  // namespace weft::docs
