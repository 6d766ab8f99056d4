// One function of a library that is loaded when it is first asked for.
#pragma once

#include <dlfcn.h>

#include <string>

namespace weft::p2p::verbs {

/// Looks a function up by name and version: the plain name may find one of an older ABI. The
/// versions are those that a program linked with today's library would ask for. Null where it is
/// missing; the first that is goes into `missing`.
template <typename Function>
void find_symbol(void* library, Function& function, const char* name, const char* version,
                 std::string& missing) {
  function = reinterpret_cast<Function>(::dlvsym(library, name, version));
  if (function == nullptr && missing.empty()) missing = std::string(name) + "@" + version;
}

}  // namespace weft::p2p::verbs
