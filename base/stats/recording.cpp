#include "base/stats/recording.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <vector>

#include "base/os/folder.hpp"
#include "base/os/system_error.hpp"
#include "base/stats/packed.hpp"

namespace weft::stats {
namespace {

/// The image of a recording: a stats segment with only the entries that exist, none of them torn.
class Image {
 public:
  Image(const StatsView& stats, const RecordingAbout& about)
      : edges_(stats.all_edges()),
        nodes_(stats.nodes()),
        failures_(stats.failures()),
        recording_(stats.recorder().all()) {
    lay_out(stats);
    put_identity(stats, about);
    put_paths(stats);
    put_waits(stats);
    put_failures();
    put_executors(stats);
    put_ring();
    put_edges();
    header().magic.store(kMagic);
  }

  std::span<const std::byte> bytes() const noexcept { return std::as_bytes(std::span(words_)); }

 private:
  Header& header() noexcept { return *reinterpret_cast<Header*>(words_.data()); }
  Section& section(SectionIndex index) noexcept {
    return header().sections[static_cast<std::size_t>(index)];
  }
  template <typename Entry>
  Entry* at(SectionIndex index) noexcept {
    auto* const start = reinterpret_cast<std::byte*>(words_.data());
    return reinterpret_cast<Entry*>(start + section(index).offset);
  }

  void lay_out(const StatsView& stats) {
    // Unreadable events need cells too, since an event's cell follows from its number.
    const std::size_t events =
        std::bit_ceil(std::max<std::size_t>(recording_.events.size() + recording_.unreadable, 1));
    struct Part {
      std::string_view name;
      std::size_t entry;
      std::size_t count;
    };
    const std::array<Part, kSections> parts{{{"identity", sizeof(SegmentIdentity), 1},
                                             {"schema", 1, stats.schema().size() + 1},
                                             {"recorded", sizeof(Recorded), 1},
                                             {"totals", sizeof(Totals), 1},
                                             {"paths", sizeof(PathEntry), stats.paths().size()},
                                             {"waits", sizeof(WaitEntry), stats.waits().size()},
                                             {"failures", sizeof(FailureEntry), failures_.size()},
                                             {"executors", sizeof(ExecutorEntry), kExecutors},
                                             {"nodes", sizeof(NodeEntry), nodes_.size()},
                                             {"recorder", sizeof(RingState), 1},
                                             {"ring", sizeof(Record), events},
                                             {"edges", sizeof(EdgeEntry), edges_.size()}}};
    const auto in_lines = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
    std::size_t total = in_lines(sizeof(Header));
    for (const Part& part : parts) total += in_lines(part.entry * part.count);
    words_.assign(total / sizeof(Line), Line{});
    new (words_.data()) Header{};
    header().version = kVersion;
    header().header_bytes = sizeof(Header);
    header().bytes = total;
    header().section_count = kSections;
    header().section_bytes = sizeof(Section);
    std::size_t offset = in_lines(sizeof(Header));
    for (std::size_t i = 0; i < kSections; ++i) {
      Section& section = header().sections[i];
      std::memcpy(section.name.data(), parts[i].name.data(), parts[i].name.size());
      section.offset = offset;
      section.entry_bytes = static_cast<std::uint32_t>(parts[i].entry);
      section.capacity = static_cast<std::uint32_t>(parts[i].count);
      section.present.store(section.capacity);
      offset += in_lines(parts[i].entry * parts[i].count);
    }
  }

  void put_identity(const StatsView& stats, const RecordingAbout& about) {
    *at<SegmentIdentity>(SectionIndex::identity) = stats.identity();
    std::memcpy(at<char>(SectionIndex::schema), stats.schema().data(), stats.schema().size());
    auto& recorded = *at<Recorded>(SectionIndex::recorded);
    recorded.unix_ns = static_cast<std::uint64_t>(
        std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count());
    recorded.monotonic_ns = ns_of(Clock::now());
    recorded.by_rank = about.by_rank;
    recorded.by_pid = ::getpid();
    const std::string_view why = about.why.substr(0, recorded.why.size() - 1);
    why.copy(recorded.why.data(), why.size());
    auto& totals = *at<Totals>(SectionIndex::totals);
    totals.edges_shown.store(stats.totals().edges_shown.load());
    totals.edges_not_shown.store(stats.totals().edges_not_shown.load());
    totals.rejected_connections.store(stats.totals().rejected_connections.load());
  }

  void put_paths(const StatsView& stats) {
    auto* path = at<PathEntry>(SectionIndex::paths);
    for (const PathEntry& from : stats.paths()) {
      path->peer = from.peer;
      path->state.store(from.state.load());
      path->pid = from.pid;
      path->health.store(from.health.load());
      path->fabric.set(from.fabric.get());
      path->counters.control_messages.add(from.counters.control_messages.get());
      path->counters.registrations.add(from.counters.registrations.get());
      path->counters.rails_lost.add(from.counters.rails_lost.get());
      path->counters.rails_back.add(from.counters.rails_back.get());
      path->condition.set(from.condition.get());
      path->host.set(from.host.get());
      ++path;
    }
  }

  void put_waits(const StatsView& stats) {
    auto* entry = at<WaitEntry>(SectionIndex::waits);
    std::vector<ShownWait> waits = stats.waits();
    waits.resize(std::min<std::size_t>(waits.size(), section(SectionIndex::waits).capacity));
    for (const ShownWait& wait : waits) {
      entry->taken.store(1);
      WaitAbout about = wait.about;
      about.details = &wait.details;
      entry->what.store(pack(about));
      entry->slot.store(wait.about.slot);
      entry->sequence.store(wait.about.sequence);
      entry->until.store(wait.until_ns);
      entry->bytes.store(wait.details.bytes);
      entry->tag.store(wait.details.tag);
      entry->mask.store(wait.details.mask);
      for (std::size_t i = 0; i < kAwaited; ++i) entry->awaited[i].store(wait.details.awaited[i]);
      entry->text.set(wait.details.text());
      entry->within.set(wait.within);
      entry->since.store(wait.since_ns);
      ++entry;
    }
  }

  void put_failures() {
    auto* entry = at<FailureEntry>(SectionIndex::failures);
    for (const ShownFailure& from : failures_) {
      entry->taken.store(1);
      entry->what.store(pack(static_cast<std::uint8_t>(from.operation), from.peer) |
                        static_cast<std::uint64_t>(from.code) << 40U);
      entry->slot.store(from.slot);
      entry->sequence.store(from.sequence);
      entry->count.store(from.count);
      entry->text.set(from.text);
      entry->since.store(from.since_ns);
      ++entry;
    }
  }

  void put_executors(const StatsView& stats) {
    auto* const entries = at<ExecutorEntry>(SectionIndex::executors);
    for (const ShownExecutor& from : stats.executors()) {
      if (from.number > kExecutors) continue;
      ExecutorEntry& to = entries[from.number - 1];
      to.generation.store(2);
      to.live.store(from.live ? 1 : 0);
      to.begun.store(from.begun);
      to.ended.store(from.ended);
      to.failed.store(from.failed ? 1 : 0);
      to.name.set(from.name);
    }
    auto* node = at<NodeEntry>(SectionIndex::nodes);
    for (const ShownNode& from : nodes_) {
      node->name.set(from.name);
      node++->number.store(from.number);
    }
  }

  /// Stores the events under their original numbers, so that a reader sees how many preceded them.
  void put_ring() {
    auto& state = *at<RingState>(SectionIndex::recorder);
    state.head.store(recording_.begun);
    const std::uint64_t capacity = section(SectionIndex::ring).capacity;
    for (const RecordedEvent& event : recording_.events) {
      Record& cell = at<Record>(SectionIndex::ring)[event.number & (capacity - 1)];
      write_words(cell, event);
      cell.stamp.store(whole_stamp(event.number));
    }
  }

  void put_edges() {
    auto* entry = at<EdgeEntry>(SectionIndex::edges);
    for (const ShownEdge& edge : edges_) {
      entry->generation.store(2);
      entry->state.store(edge.state);
      entry->role.store(static_cast<std::uint32_t>(edge.report.role));
      entry->peer.store(edge.report.peer);
      entry->slot.store(edge.slot);
      entry->pending.store(edge.pending);
      entry->fabric.set(edge.report.fabric);
      entry->name.set(edge.report.slot);
      const TransferCounters& from = edge.report.counters;
      EdgeCounters& to = entry->counters;
      to.transfers.add(from.transfers);
      to.bytes_moved.add(from.bytes_moved);
      to.bytes_copied.add(from.bytes_copied);
      to.work_requests.add(from.work_requests);
      to.credit_writes.add(from.credit_writes);
      to.control_messages.add(from.control_messages);
      to.registrations.add(from.registrations);
      entry->gpu_counters.staged_bytes.add(from.staged_bytes);
      entry->gpu_counters.device_copies.add(from.device_copies);
      entry->gpu_counters.gpu_flushes.add(from.gpu_flushes);
      ++entry;
    }
  }

  struct alignas(64) Line {
    std::array<std::byte, 64> bytes{};
  };
  std::vector<ShownEdge> edges_;
  std::vector<ShownNode> nodes_;
  std::vector<ShownFailure> failures_;
  Recording recording_;
  std::vector<Line> words_;
};

/// Writes a file without a name, then links the name, so that a process that ends meanwhile leaves
/// no partial file. False if the file system does not support unnamed files.
bool write_unnamed(std::span<const std::byte> bytes, const os::Folder& folder,
                   const std::string& name, bool only_if_none) {
  const os::Fd file(::openat(folder.fd(), ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (!file) return false;
  const std::string path = (folder.path() / name).native();
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) os::throw_system_error(folder.operation(), path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  const std::string own = fmt::format("/proc/self/fd/{}", file.get());
  for (int tries = 0; tries < 2; ++tries) {
    if (::linkat(AT_FDCWD, own.c_str(), folder.fd(), name.c_str(), AT_SYMLINK_FOLLOW) == 0)
      return true;
    if (errno != EEXIST) os::throw_system_error(folder.operation(), path);
    if (only_if_none) return true;
    folder.remove(name);
  }
  return true;  // another process has just made a recording of the same rank
}

void write_renamed(std::span<const std::byte> bytes, const os::Folder& folder,
                   const std::string& name, bool only_if_none) {
  os::Draft draft(folder, name);
  draft.write(bytes);
  if (only_if_none)
    draft.publish_if_none();
  else
    draft.publish();
}

std::string for_names(std::string_view from) {
  std::string text(from);
  for (char& c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_') c = '_';
  return text;
}

}  // namespace

std::string file_stem(std::string_view job, int rank, std::string_view host, int pid) {
  return fmt::format("{}{}rank{}-{}-{}", for_names(job), job.empty() ? "" : "-", rank,
                     for_names(host), pid);
}

std::string write_recording(const StatsView& stats, const std::string& folder,
                            const RecordingAbout& about) {
  const SegmentIdentity& of = stats.identity();
  const std::string name = fmt::format(
      "weft-{}{}", file_stem(of.job.data(), of.rank, of.host.data(), of.pid), kRecordingEnd);
  const Image image(stats, about);
  const os::Folder to = os::Folder::open(folder, "recording");
  if (!write_unnamed(image.bytes(), to, name, about.only_if_none))
    write_renamed(image.bytes(), to, name, about.only_if_none);
  return (to.path() / name).native();
}

}  // namespace weft::stats
