// A library that is loaded when it is first asked for, and its functions.
//
// Each library has one table CALLS(CALL) of its functions, `CALL(name, function, version)`. The
// struct of pointers and the loading both come from it.
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

/// Loads `file` and fills `symbols` by look_up(). False: it can't, and `why` says so and how to
/// `install` the library.
template <typename Symbols>
bool load_symbols(Symbols& symbols, const char* file, const char* install, std::string& why) {
  void* library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    why = std::string("can't be loaded: ") + ::dlerror() + "; " + install;
    return false;
  }
  if (const std::string missing = symbols.look_up(library); !missing.empty()) {
    why = std::string(file) + " is too old: it has no " + missing + "; " + install +
          " of rdma-core 32 or later";
    ::dlclose(library);
    return false;
  }
  return true;
}

}  // namespace weft::p2p::verbs

/// A member of the struct of pointers.
// NOLINTNEXTLINE(bugprone-macro-parentheses): it declares `name`
#define WEFT_SYMBOL_POINTER(name, function, version) decltype(&::function) name = nullptr;

/// A step of look_up(library), which keeps the first `missing`.
#define WEFT_FIND_SYMBOL(name, function, version) \
  find_symbol(library, name, #function, version, missing);
