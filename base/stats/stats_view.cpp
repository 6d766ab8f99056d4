#include "base/stats/stats_view.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/fail.hpp"
#include "base/os/system_error.hpp"
#include "base/stats/packed.hpp"
#include "weft/error.hpp"

namespace weft::stats {
namespace {

constexpr std::array<std::size_t, kSections> kEntryBytes{
    sizeof(SegmentIdentity), 1,
    sizeof(Recorded),        sizeof(Totals),
    sizeof(PathEntry),       sizeof(WaitEntry),
    sizeof(FailureEntry),    sizeof(ExecutorEntry),
    sizeof(NodeEntry),       sizeof(RingState),
    sizeof(Record),          sizeof(EdgeEntry)};

[[noreturn]] void refuse(const std::string& why) {
  throw_error(Code::system, "stats segment", why, "read it with the weft that the rank runs");
}

void check_kind(const Header& header) {
  if (header.magic.load(std::memory_order_acquire) != kMagic) refuse("it is no stats segment");
  if (header.version != kVersion)
    refuse("its layout has version " + std::to_string(header.version) + ", this reader knows " +
           std::to_string(kVersion));
}

/// Fills `to` from the start of the file; returns the bytes read, fewer if the file is shorter.
std::size_t read_start(const os::Fd& file, std::span<std::byte> to) {
  std::size_t read = 0;
  while (read < to.size()) {
    const ssize_t got =
        ::pread(file.get(), to.data() + read, to.size() - read, static_cast<off_t>(read));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) os::throw_system_error("read", kFileName);
    if (got == 0) break;
    read += static_cast<std::size_t>(got);
  }
  return read;
}

/// The end of the last existing entry. The rest of the file is a hole, reserved for more edges.
std::size_t end_of_entries(const Header& header, std::size_t file_bytes) {
  std::size_t end = sizeof(Header);
  for (std::size_t i = 0; i < kSections; ++i) {
    const Section& part = header.sections[i];
    const bool grows = i == static_cast<std::size_t>(SectionIndex::edges);
    const std::size_t entries =
        grows ? std::min(part.present.load(), part.capacity) : part.capacity;
    const std::size_t bytes = std::size_t{part.entry_bytes} * entries;
    if (part.offset > file_bytes || bytes > file_bytes - part.offset)
      refuse("section " + std::to_string(i) + " does not lie within it");
    end = std::max(end, static_cast<std::size_t>(part.offset) + bytes);
  }
  if (end > StatsView::kMostBytes) refuse(std::to_string(end) + " bytes are no stats segment");
  return end;
}

template <typename Entry>
std::span<Entry> entries_in(std::span<std::byte> bytes, SectionIndex index) {
  const Section& part =
      reinterpret_cast<Header*>(bytes.data())->sections[static_cast<std::size_t>(index)];
  return {reinterpret_cast<Entry*>(bytes.data() + part.offset), part.capacity};
}

/// Invalidates entries that changed between the two copies, since the first copy of them may be
/// torn.
void drop_torn(std::span<std::byte> copy, std::span<std::byte> later) {
  const auto is_same = [](const Word& a, const Word& b) { return a.load() == b.load(); };
  const auto edges = entries_in<EdgeEntry>(copy, SectionIndex::edges);
  const auto later_edges = entries_in<EdgeEntry>(later, SectionIndex::edges);
  for (std::size_t i = 0; i < edges.size(); ++i)
    if (!is_same(edges[i].generation, later_edges[i].generation)) edges[i].generation.store(1);
  const auto records = entries_in<Record>(copy, SectionIndex::ring);
  const auto later_records = entries_in<Record>(later, SectionIndex::ring);
  for (std::size_t i = 0; i < records.size(); ++i)
    if (!is_same(records[i].stamp, later_records[i].stamp)) records[i].stamp.store(0);
  const auto executors = entries_in<ExecutorEntry>(copy, SectionIndex::executors);
  const auto later_executors = entries_in<ExecutorEntry>(later, SectionIndex::executors);
  for (std::size_t i = 0; i < executors.size(); ++i)
    if (!is_same(executors[i].generation, later_executors[i].generation))
      executors[i].generation.store(1);
  const auto nodes = entries_in<NodeEntry>(copy, SectionIndex::nodes);
  const auto later_nodes = entries_in<NodeEntry>(later, SectionIndex::nodes);
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (!is_same(nodes[i].number, later_nodes[i].number)) nodes[i].number.store(0);
  const auto waits = entries_in<WaitEntry>(copy, SectionIndex::waits);
  const auto later_waits = entries_in<WaitEntry>(later, SectionIndex::waits);
  for (std::size_t i = 0; i < waits.size(); ++i)
    if (!is_same(waits[i].since, later_waits[i].since)) waits[i].since.store(0);
  const auto failures = entries_in<FailureEntry>(copy, SectionIndex::failures);
  const auto later_failures = entries_in<FailureEntry>(later, SectionIndex::failures);
  for (std::size_t i = 0; i < failures.size(); ++i)
    if (!is_same(failures[i].since, later_failures[i].since)) failures[i].since.store(0);
}

void end_texts(std::span<std::byte> copy) {
  SegmentIdentity& identity = entries_in<SegmentIdentity>(copy, SectionIndex::identity).front();
  identity.host.back() = identity.weft_version.back() = identity.boot.back() = '\0';
  identity.job.back() = '\0';
  entries_in<Recorded>(copy, SectionIndex::recorded).front().why.back() = '\0';
}

}  // namespace

StatsView StatsView::open(const os::Fd& file) {
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) os::throw_system_error("fstat", kFileName);
  const auto bytes = static_cast<std::size_t>(about.st_size);
  if (bytes < sizeof(Header)) refuse(std::to_string(bytes) + " bytes are no stats segment");
  os::Mapping memory = os::Mapping::readable(file, bytes);
  const std::span<const std::byte> seen(memory.data(), bytes);
  StatsView view(std::move(memory), {}, seen);
  view.check();
  return view;
}

StatsView StatsView::copy_of(const os::Fd& file) {
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) os::throw_system_error("fstat", kFileName);
  const auto file_bytes = static_cast<std::size_t>(about.st_size);
  alignas(64) std::array<std::byte, sizeof(Header)> start{};
  if (!S_ISREG(about.st_mode) || read_start(file, start) < start.size())
    refuse(std::to_string(file_bytes) + " bytes are no stats segment");
  auto& header = *reinterpret_cast<Header*>(start.data());
  check_kind(header);
  const std::size_t bytes = end_of_entries(header, file_bytes);
  std::vector<Line> copy((bytes + sizeof(Line) - 1) / sizeof(Line), Line{});
  const std::span<std::byte> seen(reinterpret_cast<std::byte*>(copy.data()), bytes);
  std::vector<Line> later(copy.size(), Line{});
  const std::span<std::byte> again(reinterpret_cast<std::byte*>(later.data()), bytes);
  if (read_start(file, seen) < bytes || read_start(file, again) < bytes)
    refuse("it was cut off while it was read");
  for (const auto& each : {seen, again}) {
    Section& edges = header.sections[static_cast<std::size_t>(SectionIndex::edges)];
    edges.capacity = std::min(edges.present.load(), edges.capacity);
    std::memcpy(each.data(), start.data(), start.size());  // the header as it was validated
  }
  StatsView view({}, std::move(copy), seen);
  view.check();
  drop_torn(seen, again);
  end_texts(seen);
  return view;
}

StatsView StatsView::of(std::span<const std::byte> memory) {
  StatsView view({}, {}, memory);
  view.check();
  return view;
}

void StatsView::check() const {
  check_kind(header());
  std::size_t end = sizeof(Header);  // sections follow each other in order
  for (std::size_t i = 0; i < kSections; ++i) {
    const Section& part = header().sections[i];
    const std::size_t bytes = std::size_t{part.entry_bytes} * part.capacity;
    if (part.entry_bytes != kEntryBytes[i] || part.offset % alignof(EdgeEntry) != 0 ||
        part.offset < end || part.offset > bytes_.size() || bytes > bytes_.size() - part.offset)
      refuse("section " + std::to_string(i) + " does not lie within it");
    end = part.offset + bytes;
  }
  for (const SectionIndex one :
       {SectionIndex::identity, SectionIndex::schema, SectionIndex::recorded, SectionIndex::totals,
        SectionIndex::recorder})
    if (section(one).capacity == 0)
      refuse("section " + std::to_string(static_cast<int>(one)) + " has no entries");
  if (!std::has_single_bit(section(SectionIndex::ring).capacity))
    refuse("its ring is no power of two");
  const SegmentIdentity& of = identity();
  if (of.size < 1 || of.rank < 0 || of.rank >= of.size ||
      static_cast<std::size_t>(of.size) != section(SectionIndex::paths).capacity)
    refuse("rank " + std::to_string(of.rank) + " of " + std::to_string(of.size) + " is none");
}

std::span<const PathEntry> StatsView::paths() const noexcept {
  return {at<PathEntry>(SectionIndex::paths), section(SectionIndex::paths).capacity};
}

std::vector<ShownEdge> StatsView::edges() const {
  std::vector<ShownEdge> edges = all_edges();
  std::erase_if(edges, [](const ShownEdge& edge) { return edge.state == EdgeState::free; });
  return edges;
}

std::vector<ShownWait> StatsView::waits() const {
  std::vector<ShownWait> waits;
  const Section& part = section(SectionIndex::waits);
  for (const WaitEntry& entry : std::span(at<WaitEntry>(SectionIndex::waits), part.capacity)) {
    const std::uint64_t since = entry.since.load(std::memory_order_acquire);
    if (since == 0) continue;
    const std::uint64_t what = entry.what.load(std::memory_order_acquire);
    const auto third = static_cast<std::uint8_t>(what >> 32U & 0xff);
    ShownWait wait{.about = {.operation = static_cast<Operation>(kind_in(what)),
                             .peer = peer_in(what),
                             .slot = entry.slot.load(std::memory_order_acquire),
                             .sequence = entry.sequence.load(std::memory_order_acquire),
                             .more = static_cast<std::uint16_t>(what >> 40U & 0xffff)},
                   .details = {.bytes = entry.bytes.load(std::memory_order_acquire),
                               .tag = entry.tag.load(std::memory_order_acquire),
                               .mask = entry.mask.load(std::memory_order_acquire)},
                   .within = entry.within.get(),
                   .since_ns = since,
                   .until_ns = entry.until.load(std::memory_order_acquire)};
    if (wait.about.operation == Operation::step)
      wait.about.executor = third;
    else
      for (std::size_t i = 0; i < std::min<std::size_t>(third, kAwaited); ++i)
        wait.details.await(entry.awaited[i].load(std::memory_order_acquire));
    wait.details.set_text(entry.text.get());
    if (entry.since.load(std::memory_order_relaxed) == since) waits.push_back(std::move(wait));
  }
  std::ranges::sort(waits, {}, &ShownWait::since_ns);
  return waits;
}

std::vector<ShownFailure> StatsView::failures() const {
  std::vector<ShownFailure> failures;
  const Section& part = section(SectionIndex::failures);
  for (const FailureEntry& entry :
       std::span(at<FailureEntry>(SectionIndex::failures), part.capacity)) {
    const std::uint64_t since = entry.since.load(std::memory_order_acquire);
    if (since == 0) continue;
    const std::uint64_t what = entry.what.load(std::memory_order_acquire);
    ShownFailure failure{.operation = static_cast<Operation>(kind_in(what)),
                         .peer = peer_in(what),
                         .code = static_cast<Code>(what >> 40U & 0xff),
                         .slot = entry.slot.load(std::memory_order_acquire),
                         .sequence = entry.sequence.load(std::memory_order_acquire),
                         .count = entry.count.load(std::memory_order_acquire),
                         .since_ns = since,
                         .text = entry.text.get()};
    if (entry.since.load(std::memory_order_relaxed) == since)
      failures.push_back(std::move(failure));
  }
  std::ranges::sort(failures, {}, &ShownFailure::since_ns);
  return failures;
}

std::vector<ShownEdge> StatsView::all_edges() const {
  std::vector<ShownEdge> edges;
  const std::size_t present =
      std::min(section(SectionIndex::edges).present.load(), section(SectionIndex::edges).capacity);
  for (const EdgeEntry& entry : std::span(at<EdgeEntry>(SectionIndex::edges), present)) {
    const std::uint64_t generation = entry.generation.load(std::memory_order_acquire);
    if (generation % 2 != 0 || generation == 0) continue;
    if (entry.role.load() >= kRoles) continue;
    ShownEdge edge;
    edge.state = entry.state.load(std::memory_order_acquire);
    edge.slot = entry.slot.load(std::memory_order_acquire);
    edge.pending = entry.pending.load(std::memory_order_acquire);
    edge.report.peer = entry.peer.load(std::memory_order_acquire);
    edge.report.role = static_cast<Role>(entry.role.load(std::memory_order_acquire));
    edge.report.slot = entry.name.get();
    edge.report.fabric = entry.fabric.get();
    edge.report.counters = entry.read_counters();
    std::atomic_thread_fence(std::memory_order_acquire);  // the counters' loads are relaxed
    if (entry.generation.load(std::memory_order_relaxed) == generation)
      edges.push_back(std::move(edge));
  }
  return edges;
}

std::vector<ShownExecutor> StatsView::executors() const {
  std::vector<ShownExecutor> executors;
  const std::size_t most = std::min<std::size_t>(section(SectionIndex::executors).capacity, 255);
  const std::span entries(at<ExecutorEntry>(SectionIndex::executors), most);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const ExecutorEntry& entry = entries[i];
    const std::uint64_t generation = entry.generation.load(std::memory_order_acquire);
    if (generation % 2 != 0 || generation == 0) continue;
    ShownExecutor one{.number = static_cast<std::uint8_t>(i + 1),
                      .name = entry.name.get(),
                      .live = entry.live.load(std::memory_order_acquire) != 0,
                      .failed = entry.failed.load(std::memory_order_acquire) != 0,
                      // In this order: no more steps have ended than begun.
                      .ended = entry.ended.load(std::memory_order_acquire)};
    one.begun = entry.begun.load(std::memory_order_acquire);
    if (entry.generation.load(std::memory_order_relaxed) == generation)
      executors.push_back(std::move(one));
  }
  return executors;
}

std::vector<ShownNode> StatsView::nodes() const {
  std::vector<ShownNode> nodes;
  const Section& part = section(SectionIndex::nodes);
  for (const NodeEntry& entry : std::span(at<NodeEntry>(SectionIndex::nodes), part.capacity)) {
    const std::uint64_t number = entry.number.load(std::memory_order_acquire);
    if (number == 0) continue;
    ShownNode node{.number = number, .name = entry.name.get()};
    if (entry.number.load(std::memory_order_relaxed) == number) nodes.push_back(std::move(node));
  }
  return nodes;
}

RecorderView StatsView::recorder() const noexcept {
  return {*at<RingState>(SectionIndex::recorder),
          {at<Record>(SectionIndex::ring), section(SectionIndex::ring).capacity}};
}

}  // namespace weft::stats
