#include "base/board/board_view.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <bit>

#include "base/board/packed.hpp"
#include "base/os/system_error.hpp"
#include "weft/error.hpp"

namespace weft::board {
namespace {

constexpr std::array<std::size_t, kSections> kEntryBytes{sizeof(Identity),  1,
                                                         sizeof(Recorded),  sizeof(Totals),
                                                         sizeof(PathEntry), sizeof(WaitEntry),
                                                         sizeof(RingState), sizeof(Record),
                                                         sizeof(EdgeEntry)};

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorDetail{.code = Code::system,
                          .operation = "status board",
                          .message = why,
                          .hint = "read it with the weft that the rank runs"});
}

}  // namespace

BoardView BoardView::open(const os::Fd& file) {
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) os::throw_system_error("fstat", kFileName);
  const auto bytes = static_cast<std::size_t>(about.st_size);
  if (bytes < sizeof(Header)) refuse(std::to_string(bytes) + " bytes are no status board");
  os::Mapping memory = os::Mapping::readable(file, bytes);
  const std::span<const std::byte> seen(memory.data(), bytes);
  BoardView view(std::move(memory), seen);
  view.check();
  return view;
}

BoardView BoardView::of(std::span<const std::byte> memory) {
  BoardView view({}, memory);
  view.check();
  return view;
}

void BoardView::check() const {
  if (header().magic.load(std::memory_order_acquire) != kMagic) refuse("it is no status board");
  if (header().version != kVersion)
    refuse("its layout has version " + std::to_string(header().version) + ", this reader knows " +
           std::to_string(kVersion));
  for (std::size_t i = 0; i < kSections; ++i) {
    const Section& part = header().sections[i];
    const std::size_t bytes = std::size_t{part.entry_bytes} * part.capacity;
    if (part.entry_bytes != kEntryBytes[i] || part.offset % alignof(EdgeEntry) != 0 ||
        part.offset > bytes_.size() || bytes > bytes_.size() - part.offset)
      refuse("section " + std::to_string(i) + " does not lie within it");
  }
  if (!std::has_single_bit(section(SectionIndex::ring).capacity))
    refuse("its ring is no power of two");
}

std::span<const PathEntry> BoardView::paths() const noexcept {
  return {at<PathEntry>(SectionIndex::paths), section(SectionIndex::paths).capacity};
}

std::vector<ShownEdge> BoardView::edges() const {
  std::vector<ShownEdge> edges = all_edges();
  std::erase_if(edges, [](const ShownEdge& edge) { return edge.state == EdgeState::free; });
  return edges;
}

std::vector<ShownWait> BoardView::waits() const {
  std::vector<ShownWait> waits;
  const Section& part = section(SectionIndex::waits);
  for (const WaitEntry& entry : std::span(at<WaitEntry>(SectionIndex::waits), part.capacity)) {
    const std::uint64_t since = entry.since.load(std::memory_order_acquire);
    if (since == 0) continue;
    const std::uint64_t what = entry.what.load(std::memory_order_acquire);
    const ShownWait wait{.about = {.operation = static_cast<Operation>(kind_in(what)),
                                   .peer = peer_in(what),
                                   .slot = entry.slot.load(std::memory_order_acquire),
                                   .sequence = entry.sequence.load(std::memory_order_acquire)},
                         .since_ns = since,
                         .until_ns = entry.until.load(std::memory_order_acquire)};
    if (entry.since.load(std::memory_order_relaxed) == since) waits.push_back(wait);
  }
  std::ranges::sort(waits, {}, &ShownWait::since_ns);
  return waits;
}

std::vector<ShownEdge> BoardView::all_edges() const {
  std::vector<ShownEdge> edges;
  const std::size_t present =
      std::min(section(SectionIndex::edges).present.load(), section(SectionIndex::edges).capacity);
  for (const EdgeEntry& entry : std::span(at<EdgeEntry>(SectionIndex::edges), present)) {
    const std::uint64_t generation = entry.generation.load(std::memory_order_acquire);
    if (generation % 2 != 0 || generation == 0) continue;
    ShownEdge edge;
    edge.state = entry.state.load(std::memory_order_acquire);
    edge.slot = entry.slot.load(std::memory_order_acquire);
    edge.pending = entry.pending.load(std::memory_order_acquire);
    edge.report.peer = entry.peer.load(std::memory_order_acquire);
    edge.report.role = static_cast<Role>(entry.role.load(std::memory_order_acquire));
    edge.report.slot = entry.name.get();
    edge.report.fabric = entry.fabric.get();
    edge.report.counters = entry.counters.read();
    std::atomic_thread_fence(std::memory_order_acquire);  // the counters are loaded relaxed
    if (entry.generation.load(std::memory_order_relaxed) == generation)
      edges.push_back(std::move(edge));
  }
  return edges;
}

RecorderView BoardView::recorder() const noexcept {
  return {*at<RingState>(SectionIndex::recorder),
          {at<Record>(SectionIndex::ring), section(SectionIndex::ring).capacity}};
}

}  // namespace weft::board
