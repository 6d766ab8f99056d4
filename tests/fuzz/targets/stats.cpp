// Fuzzes a stats segment or a recording: laid out and then damaged by the input.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/stats/stats_view.hpp"
#include "tests/fuzz/input.hpp"
#include "weft/error.hpp"

using namespace weft;
using weft::fuzz::Input;
using weft::fuzz::require;

namespace {

std::size_t in_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

std::string lay_out(Input& input) {
  const auto paths = input.take<std::uint8_t>() % 4U;
  const auto waits = input.take<std::uint8_t>() % 4U;
  const auto records = 1U << (input.take<std::uint8_t>() % 4U);
  const auto edges = input.take<std::uint8_t>() % 4U;
  const auto executors = input.take<std::uint8_t>() % 4U;
  const std::array<std::pair<std::size_t, std::uint32_t>, stats::kSections> parts{
      {{sizeof(stats::SegmentIdentity), 1U},
       {1, 8U},
       {sizeof(stats::Recorded), 1U},
       {sizeof(stats::Totals), 1U},
       {sizeof(stats::PathEntry), paths},
       {sizeof(stats::WaitEntry), waits},
       {sizeof(stats::FailureEntry), waits},
       {sizeof(stats::ExecutorEntry), executors},
       {sizeof(stats::NodeEntry), executors},
       {sizeof(stats::RingState), 1U},
       {sizeof(stats::Record), records},
       {sizeof(stats::EdgeEntry), edges}}};
  std::size_t end = in_lines(sizeof(stats::Header));
  for (const auto& [entry, count] : parts) end += in_lines(entry * count);
  std::vector<std::uint64_t> words(end / 8);
  auto& header = *new (words.data()) stats::Header{};
  header.magic.store(stats::kMagic);
  header.version = stats::kVersion;
  std::size_t offset = in_lines(sizeof(stats::Header));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    header.sections[i].offset = offset;
    header.sections[i].entry_bytes = static_cast<std::uint32_t>(parts[i].first);
    header.sections[i].capacity = parts[i].second;
    header.sections[i].present.store(parts[i].second);
    offset += in_lines(parts[i].first * parts[i].second);
  }
  std::string bytes(reinterpret_cast<const char*>(words.data()), end);
  stats::SegmentIdentity identity{};
  identity.size = static_cast<std::int32_t>(paths);
  std::memcpy(bytes.data() + header.sections[0].offset, &identity, sizeof identity);
  return bytes;
}

void walk(const stats::StatsView& view) {
  std::size_t seen = view.schema().size();
  for (const stats::ShownEdge& edge : view.all_edges()) {
    require(edge.report.role <= stats::kCalls);
    seen += edge.report.slot.size() + edge.report.fabric.size();
  }
  for (const stats::PathEntry& path : view.paths())
    seen += path.host.get().size() + path.condition.get().size();
  for (const stats::ShownExecutor& one : view.executors()) seen += one.name.size();
  for (const stats::ShownNode& node : view.nodes()) seen += node.name.size();
  for (const stats::ShownFailure& failure : view.failures()) seen += failure.text.size();
  seen += view.waits().size() + view.recorder().all().events.size();
  for (const char* text : {view.identity().host.data(), view.identity().job.data(),
                           view.identity().boot.data(), view.recorded().why.data()})
    seen += std::strlen(text);
  require(seen < 2 * view.bytes());
  require(view.identity().rank >= 0 && view.identity().rank < view.identity().size);
  require(view.paths().size() == static_cast<std::size_t>(view.identity().size));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  std::string bytes;
  if (input.take<std::uint8_t>() % 4 != 0) {
    bytes = lay_out(input);
    for (auto spoilt = input.take<std::uint8_t>() % 32; spoilt > 0; --spoilt) {
      const std::size_t at = input.take<std::uint16_t>() % bytes.size();
      bytes[at] = static_cast<char>(input.take<std::uint8_t>());
    }
  } else {
    bytes = input.text();
  }
  const os::Fd file(::memfd_create("fuzz", MFD_CLOEXEC));
  require(::write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  try {
    walk(stats::StatsView::copy_of(file));
  } catch (const Error& error) {
    require(error.code() == Code::system);
  }
  return 0;
}
