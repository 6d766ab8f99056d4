# Packages that weft is built from, all of them Debian's. docs/dependencies.md says why each is here.
set(weft_missing "")

macro(weft_need package)
  find_package(${package} QUIET ${ARGN})
  if(NOT ${package}_FOUND)
    list(APPEND weft_missing ${package})
  endif()
endmacro()

# A C library known by its pkg-config file, as the target `target`.
function(weft_need_pkgconfig target module)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(WEFT_PC_${module} QUIET IMPORTED_TARGET GLOBAL ${module})
  endif()
  if(WEFT_PC_${module}_FOUND)
    add_library(${target} INTERFACE IMPORTED GLOBAL)
    target_link_libraries(${target} INTERFACE PkgConfig::WEFT_PC_${module})
  else()
    set(weft_missing ${weft_missing} ${module} PARENT_SCOPE)
  endif()
endfunction()

find_package(PkgConfig QUIET)
find_package(Threads REQUIRED)
weft_need(fmt)
weft_need(spdlog)
weft_need(CLI11)
weft_need(nlohmann_json)
weft_need_pkgconfig(weft_pmix pmix)
weft_need_pkgconfig(weft_sodium libsodium)
weft_need_pkgconfig(hwy::hwy libhwy)
if(WEFT_TESTS)
  weft_need(GTest)
endif()
if(WEFT_EXAMPLES OR WEFT_TESTS)
  weft_need(Eigen3 NO_MODULE)
endif()

if(weft_missing)
  list(JOIN weft_missing ", " weft_missing)
  message(FATAL_ERROR "weft cannot be configured: not found: ${weft_missing}. "
                      "Run `./dev setup`, which installs what is missing, and try again.")
endif()

# The launcher. Debian's name for Open MPI's, so that an installed MPICH does not get in the way.
find_program(WEFT_MPIRUN NAMES mpirun.openmpi mpirun)
set(WEFT_MPIRUN_FLAGS --allow-run-as-root --oversubscribe --bind-to none)
