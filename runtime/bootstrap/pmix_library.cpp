#include "runtime/bootstrap/pmix_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>
#include <type_traits>

#include "base/fail.hpp"

namespace weft::bootstrap {
namespace {

[[noreturn]] void refuse_library(std::string message) {
  throw_error(Code::bootstrap, "join", std::move(message),
              "install libpmix2, or start the ranks by WEFT_ADDR, or set WEFT_BOOTSTRAP=alone");
}

}  // namespace

PmixLibrary load_pmix_from(const char* file) {
  // Never closed: it has threads of its own. Global: the plugins that it loads look its names up.
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr)
    refuse_library(
        fmt::format("a launcher started this rank, but its PMIx can't be loaded: {}", ::dlerror()));
  PmixLibrary calls;
  const auto find = [&](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr)
      refuse_library(fmt::format("{} has no {}: weft needs PMIx 4.2", file, name));
  };
#define WEFT_PMIX_FIND(name, function) find(calls.name, #function);
  WEFT_PMIX_CALLS(WEFT_PMIX_FIND)
#undef WEFT_PMIX_FIND
  return calls;
}

const PmixLibrary& pmix_library() {
  static const PmixLibrary loaded = load_pmix_from("libpmix.so.2");
  return loaded;
}

}  // namespace weft::bootstrap
