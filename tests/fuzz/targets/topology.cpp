// Fuzzes a machine's description, by hwloc, NCCL or weft-topo: it is refused with a reason, or
// understood, shown, and read again.
#include <string>

#include "tests/fuzz/input.hpp"
#include "topology/import/import.hpp"
#include "topology/json/json.hpp"
#include "topology/select/select.hpp"
#include "weft/error.hpp"

using namespace weft;
using namespace weft::topology;
using weft::fuzz::Input;
using weft::fuzz::require;

namespace {

/// A machine as JSON. import_text may refuse the text where the model has values that JSON can't
/// show.
std::string shown(const Model& model) {
  const Selection selection = select(model, rank_per_gpu(model));
  require(selection.nics.size() == model.nics.size());
  for (const Choice& choice : selection.choices)
    require(choice.nic >= kNone && choice.nic < static_cast<int>(model.nics.size()));
  return to_json(model, selection);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Input input(data, size);
  Model model;
  try {
    model = import_text(input.text(), "input");
  } catch (const Error& error) {
    require(error.code() == Code::bad_argument && !error.detail().message.empty());
    return 0;
  }
  const std::string text = shown(model);
  Model again;
  try {
    again = import_text(text, "again");
  } catch (const Error&) {
    return 0;
  }
  require(again.gpus.size() == model.gpus.size() && again.nics.size() == model.nics.size());
  return 0;
}
