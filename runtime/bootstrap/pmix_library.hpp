// libpmix, loaded when a launcher's PMIx is first needed, so that one build also runs where there
// is none.
#pragma once

#include <pmix.h>

namespace weft::bootstrap {

/// The functions of libpmix that weft calls: weft's name, the library's.
#define WEFT_PMIX_CALLS(CALL)              \
  CALL(init, PMIx_Init)                    \
  CALL(finalize, PMIx_Finalize)            \
  CALL(put, PMIx_Put)                      \
  CALL(commit, PMIx_Commit)                \
  CALL(fence, PMIx_Fence_nb)               \
  CALL(get, PMIx_Get)                      \
  CALL(ask, PMIx_Get_nb)                   \
  CALL(load_info, PMIx_Info_load)          \
  CALL(destroy_value, PMIx_Value_destruct) \
  CALL(error_text, PMIx_Error_string)

struct PmixLibrary {
// NOLINTNEXTLINE(bugprone-macro-parentheses): it declares `name`
#define WEFT_PMIX_POINTER(name, function) decltype(&::function) name = nullptr;
  WEFT_PMIX_CALLS(WEFT_PMIX_POINTER)
#undef WEFT_PMIX_POINTER
};

/// Loads `file`. Throws Error(bootstrap) if it can't be loaded or lacks a function.
PmixLibrary load_pmix_from(const char* file);
/// Debian's libpmix.so.2, loaded once in a process and never closed. Throws as above, each time.
/// Any thread.
const PmixLibrary& pmix_library();

}  // namespace weft::bootstrap
