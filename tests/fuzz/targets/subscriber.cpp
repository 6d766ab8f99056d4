// Fuzzes the requests of subscribers and the answers of publishers: both are authenticated, but not
// trusted.
#include "pslib/publication/layout.hpp"
#include "pslib/publication/wire.hpp"
#include "tests/fuzz/input.hpp"
#include "weft/error.hpp"

using namespace weft;
using weft::fuzz::Input;
using weft::fuzz::require;

namespace {

/// Accepted runs lie within the tensors, for every sender.
void take_runs(Input& input) {
  const std::vector<pslib::PublishedTensor> specs = {
      {.name = "rows", .dtype = DType::f32, .shape = {40, 3}},
      {.name = "line", .dtype = DType::u8, .shape = {130}}};
  const pslib::PublishedLayout layout(specs);
  pslib::RowRuns runs;
  while (input.rest().size() >= sizeof(pslib::RowRun)) runs.push_back(input.take<pslib::RowRun>());
  if (!layout.valid(runs)) return;
  require(layout.bytes(runs) <= layout.bytes());
  for (const pslib::RowRun& run : runs)
    require(layout.offset(run) + layout.bytes(run) <= layout.tensors()[run.tensor].bytes);
  require(layout.valid(pslib::unite(runs, layout.all())));
  require(pslib::unite(runs, layout.all()) == layout.all());
}

void take_specs(Input& input) {
  const std::size_t count = input.take<std::uint8_t>();
  const auto specs = pslib::wire::decode(input.rest(), count);
  if (!specs) return;
  require(specs->size() == count);
  require(std::ranges::equal(pslib::wire::encode(*specs), input.rest()));
  try {
    const pslib::PublishedLayout layout(*specs);
    require(layout.valid(layout.all()));
    require(layout.bytes(layout.all()) == layout.bytes());
  } catch (const Error& error) {
    require(error.code() == Code::bad_argument);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  switch (input.take<std::uint8_t>() % 4) {
    case 0:
      if (const auto name = input.take<pslib::wire::Ask>().attached_name())
        require(!name->empty() && name->size() <= pslib::wire::Ask::kMostName);
      break;
    case 1: {
      const auto head = input.take<pslib::wire::Head>();
      if (pslib::wire::makes_sense(head) && head.kind == pslib::wire::Head::Kind::description)
        require(head.bytes <= pslib::wire::kMostSpecs);
      break;
    }
    case 2:
      take_runs(input);
      break;
    default:
      take_specs(input);
  }
  return 0;
}
