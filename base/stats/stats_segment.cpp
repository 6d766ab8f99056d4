#include "base/stats/stats_segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/os/system_error.hpp"
#include "weft/deadline.hpp"
#include "weft/error.hpp"

namespace weft::stats {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kGrowth = 16 * kPage;
constexpr std::size_t kWaits = 64;

std::size_t in_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

template <typename AnyClock>
std::uint64_t now_ns() {
  const std::chrono::nanoseconds now = AnyClock::now().time_since_epoch();
  return static_cast<std::uint64_t>(now.count());
}

struct Part {
  const char* name;
  std::size_t entry_bytes;
  std::size_t entries;
  std::size_t offset = 0;
};

/// The sections, each starting on a page. Edges come last, since only they grow.
std::array<Part, kSections> lay_out(const StatsOptions& options) {
  std::array<Part, kSections> parts{{{"identity", sizeof(SegmentIdentity), 1},
                                     {"schema", 1, schema().size() + 1},
                                     {"recorded", sizeof(Recorded), 1},
                                     {"totals", sizeof(Totals), 1},
                                     {"paths", sizeof(PathEntry), std::size_t(options.size)},
                                     {"waits", sizeof(WaitEntry), kWaits},
                                     {"failures", sizeof(FailureEntry), kFailures},
                                     {"executors", sizeof(ExecutorEntry), kExecutors},
                                     {"nodes", sizeof(NodeEntry), options.nodes},
                                     {"recorder", sizeof(RingState), 1},
                                     {"ring", sizeof(Record), options.records},
                                     {"edges", sizeof(EdgeEntry), options.max_edges}}};
  std::size_t offset = kPage;  // the first page is the header's
  for (Part& part : parts) {
    part.offset = offset;
    offset += in_pages(part.entry_bytes * part.entries);
  }
  return parts;
}

}  // namespace

EdgeRow::EdgeRow(std::shared_ptr<StatsSegment> stats, const EdgeAbout& about)
    : stats_(std::move(stats)), entry_(stats_->take_entry()) {
  const bool shown = entry_ != nullptr;
  if (!shown) {
    hidden_ = std::make_unique<EdgeEntry>();
    entry_ = hidden_.get();
    stats_->totals().edges_not_shown.fetch_add(1);
  }
  // Release stores: a reader that sees one of these values also sees the odd generation.
  entry_->generation.fetch_add(1, std::memory_order_acq_rel);
  entry_->name.set(about.name);
  entry_->fabric.set(about.fabric);
  entry_->slot.store(about.slot, std::memory_order_release);
  entry_->role.store(static_cast<std::uint32_t>(about.role), std::memory_order_release);
  entry_->peer.store(about.peer, std::memory_order_release);
  entry_->pending.store(0, std::memory_order_release);
  entry_->counters.clear();
  entry_->gpu_counters.clear();
  entry_->state.store(about.state, std::memory_order_release);
  entry_->generation.fetch_add(1, std::memory_order_release);
}

EdgeRow::~EdgeRow() {
  if (hidden_)
    stats_->totals().edges_not_shown.fetch_sub(1);
  else
    stats_->give_back(*entry_);
}

std::shared_ptr<StatsSegment> StatsSegment::create(StatsOptions options) {
  return std::shared_ptr<StatsSegment>(new StatsSegment(std::move(options)));
}

StatsSegment::StatsSegment(StatsOptions options) : options_(std::move(options)) {
  try {
    if (options_.shared) map();
  } catch (const Error& error) {
    hidden_because_ = error.what();
    remove_file();
    file_ = {};
  }
  if (!file_) {
    memory_ = os::Mapping::anonymous(lay_out(options_).back().offset);
    populated_ = memory_.bytes();
  }
  describe();
  nodes_taken_.resize(section(SectionIndex::nodes).capacity);
}

StatsSegment::~StatsSegment() { remove_file(); }

void StatsSegment::remove_file() noexcept {
  if (file_ && !options_.file.empty()) ::unlink(options_.file.c_str());
}

os::Fd StatsSegment::make_file() const {
  if (options_.file.empty()) {
    os::Fd file(::memfd_create(kFileName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file) os::throw_system_error("memfd_create", kFileName);
    return file;
  }
  os::Fd file(::open(options_.file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) os::throw_system_error("open", options_.file);
  return file;
}

void StatsSegment::map() {
  const Part edges = lay_out(options_).back();
  const std::size_t bytes = edges.offset + in_pages(edges.entry_bytes * edges.entries);
  rlimit limit{};
  // Growing a file beyond RLIMIT_FSIZE raises SIGXFSZ, which by default ends the process.
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur)
    os::throw_system_error("stats segment", "RLIMIT_FSIZE (ulimit -f)", EFBIG);
  if (options_.may_grow && !options_.may_grow(edges.offset))
    os::throw_system_error("stats segment", std::to_string(edges.offset) + " bytes", ENOMEM);
  file_ = make_file();
  // The file has its final size from the start, so that its mapping never moves. The part for edges
  // is a hole until they need it.
  if (::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0)
    os::throw_system_error("ftruncate", kFileName);
  if (::fallocate(file_.get(), 0, 0, static_cast<off_t>(edges.offset)) != 0)
    os::throw_system_error("fallocate", kFileName);
  memory_ = os::Mapping::shared(file_, bytes);
  populated_ = edges.offset;
  if (!options_.file.empty()) return;
  int seals = F_SEAL_SHRINK | F_SEAL_GROW;
#if defined(F_SEAL_FUTURE_WRITE)
  seals |= F_SEAL_FUTURE_WRITE;  // other processes can open it for reading only
#endif
  if (::fcntl(file_.get(), F_ADD_SEALS, seals | F_SEAL_SEAL) != 0)
    os::throw_system_error("sealing", kFileName);
}

void StatsSegment::describe() {
  Header& header = this->header();
  header.version = kVersion;
  header.header_bytes = sizeof(Header);
  header.bytes = memory_.bytes();
  header.section_count = kSections;
  header.section_bytes = sizeof(Section);
  const auto parts = lay_out(options_);
  for (std::size_t i = 0; i < kSections; ++i) {
    Section& section = header.sections[i];
    std::strncpy(section.name.data(), parts[i].name, section.name.size() - 1);
    section.offset = parts[i].offset;
    section.entry_bytes = static_cast<std::uint32_t>(parts[i].entry_bytes);
    section.capacity = static_cast<std::uint32_t>(parts[i].entries);
    section.present.store(section.capacity);
  }
  section(SectionIndex::edges).present.store(0);
  if (!file_) section(SectionIndex::edges).capacity = 0;

  auto& identity = *at<SegmentIdentity>(SectionIndex::identity);
  identity.rank = options_.rank;
  identity.size = options_.size;
  identity.pid = ::getpid();
  identity.uid = ::getuid();
  identity.start_unix_ns = now_ns<std::chrono::system_clock>();
  identity.start_monotonic_ns = now_ns<Clock>();
  std::strncpy(identity.host.data(), options_.host.c_str(), identity.host.size() - 1);
  std::strncpy(identity.boot.data(), options_.boot.c_str(), identity.boot.size() - 1);
  std::strncpy(identity.job.data(), options_.job.c_str(), identity.job.size() - 1);
  std::strncpy(identity.weft_version.data(), WEFT_VERSION, identity.weft_version.size() - 1);
  const std::string words = schema();
  std::memcpy(at<char>(SectionIndex::schema), words.c_str(), words.size() + 1);
  for (int peer = 0; peer < options_.size; ++peer) path(peer).peer = peer;
  header.magic.store(kMagic, std::memory_order_release);
}

EdgeEntry* StatsSegment::take_entry() noexcept {
  const std::lock_guard lock(mutex_);
  EdgeEntry* entry = nullptr;
  // The entry that is free for longest is reused last, so that old records keep the names of their
  // slots.
  const bool fresh = used_ < section(SectionIndex::edges).present.load();
  if (fresh || (free_.empty() && grow())) {
    entry = at<EdgeEntry>(SectionIndex::edges) + used_++;
  } else if (!free_.empty()) {
    entry = free_.front();
    free_.erase(free_.begin());
  } else {
    return nullptr;
  }
  totals().edges_shown.fetch_add(1);
  return entry;
}

void StatsSegment::give_back(EdgeEntry& entry) noexcept {
  entry.state.store(EdgeState::free);
  const std::lock_guard lock(mutex_);
  free_.push_back(&entry);
  totals().edges_shown.fetch_sub(1);
}

std::size_t StatsSegment::take_node() noexcept {
  for (std::size_t i = 0; i < nodes_taken_.size(); ++i) {
    const std::size_t at = (next_node_ + i) % nodes_taken_.size();
    if (nodes_taken_[at]) continue;
    nodes_taken_[at] = true;
    next_node_ = at + 1;
    return at;
  }
  return nodes_taken_.size();
}

bool StatsSegment::grow() noexcept {
  Section& edges = section(SectionIndex::edges);
  if (used_ == edges.capacity) return false;
  try {
    if (options_.may_grow && !options_.may_grow(kGrowth)) return false;
    const std::size_t bytes = std::min(kGrowth, memory_.bytes() - populated_);
    if (::fallocate(file_.get(), 0, static_cast<off_t>(populated_), static_cast<off_t>(bytes)) != 0)
      return false;
    const std::size_t entries = (populated_ + bytes - edges.offset) / sizeof(EdgeEntry);
    free_.reserve(entries);  // so that returning an entry never allocates
    populated_ += bytes;
    edges.present.store(static_cast<std::uint32_t>(std::min<std::size_t>(entries, edges.capacity)));
  } catch (const std::exception&) {
    return false;
  }
  return used_ < edges.present.load();
}

}  // namespace weft::stats
