// One rank's variables from a checkpoint, without the other ranks.
#include <fmt/format.h>

#include <algorithm>

#include "base/control_call.hpp"
#include "base/fail.hpp"
#include "pslib/checkpoint/checkpoint_folder.hpp"
#include "pslib/graph/saved_variables.hpp"
#include "weft/variables.hpp"

namespace weft::pslib {
namespace {

[[noreturn]] void refuse_folder(const std::string& folder, const std::string& name,
                                const std::string& why) {
  throw_error(Code::mismatch, "restore",
              fmt::format("{}: {}", (std::filesystem::path(folder) / name).native(), why));
}

std::uint64_t newest_in(const os::Folder& saved, const std::string& folder,
                        const std::string& name) {
  std::optional<std::uint64_t> newest;
  for (const std::string& each : saved.names()) {
    const auto version = version_of(each);
    if (version && (!newest || *version > *newest) && saved.below(each).has(kManifestName))
      newest = version;
  }
  if (!newest) refuse_folder(folder, name, "there is no complete checkpoint");
  return *newest;
}

void check_variable(const SavedVariable& here, const Manifest& saved, const std::string& file) {
  const auto refuse_variable = [&](const std::string& why) {
    throw_error(Code::mismatch, "restore",
                fmt::format("{}: variable '{}' {}", file, here.name, why),
                "restore another checkpoint, or rename the graph's variables");
  };
  const auto there = std::ranges::find(*saved.variables, here.name, &SavedVariable::name);
  if (there == saved.variables->end()) refuse_variable("is missing");
  if (there->dtype != here.dtype || there->shape != here.shape)
    refuse_variable(fmt::format("is {}{}, in the graph {}{}", name(there->dtype),
                                there->shape.text(), name(here.dtype), here.shape.text()));
}

}  // namespace

std::uint64_t load_variables(const World& world, dataflow::Executor& executor,
                             const std::string& folder, const std::string& name,
                             std::optional<std::uint64_t> version) {
  if (world.size() == 0) weft::detail::refuse_empty("World", "restore");
  if (executor.plan().parts.empty()) weft::detail::refuse_empty("Executor", "restore");
  return control_call("restore", [&] {
    const auto own = variables_of(executor.plan().parts[static_cast<std::size_t>(world.rank())]);
    const auto saved = find_folder({.folder = folder}, name);
    if (!saved) refuse_folder(folder, name, "it is not there");
    const std::uint64_t found = version ? *version : newest_in(*saved, folder, name);
    if (!saved->find(version_name(found)))
      refuse_folder(folder, name, fmt::format("there is no version {}", found));
    const Checkpoint from(*saved, found);
    const std::string file = (saved->path() / version_name(found) / kManifestName).native();
    if (!from.manifest().variables) refuse_folder(folder, name, "it is a table's");
    for (const SavedVariable& variable : own) check_variable(variable, from.manifest(), file);
    restore_variables(from, own, executor);
    return found;
  });
}

}  // namespace weft::pslib
