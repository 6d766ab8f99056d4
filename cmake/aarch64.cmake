# Toolchain: builds weft for aarch64 on another machine, with Debian's cross compiler; what was built runs in QEMU's
# emulation of user programs. WEFT_SYSROOT is a folder with the arm64 packages that weft is built from
# (tests/aarch64/sysroot makes it).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES WEFT_SYSROOT)
if(NOT IS_DIRECTORY "${WEFT_SYSROOT}/usr/include")
  message(FATAL_ERROR "WEFT_SYSROOT is no folder of arm64 packages: '${WEFT_SYSROOT}'")
endif()

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# GCC notes at each pair of doubles that GCC 9 passed it in another way.
set(CMAKE_CXX_FLAGS_INIT -Wno-psabi)
set(CMAKE_SYSROOT ${WEFT_SYSROOT})
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# Programs are this machine's; all else is the other's.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# pkg-config's own variables are the only way in which it learns of another root.
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${WEFT_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${WEFT_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${WEFT_SYSROOT}/usr/share/pkgconfig)

find_program(WEFT_QEMU_AARCH64 NAMES qemu-aarch64 qemu-aarch64-static)
if(WEFT_QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${WEFT_QEMU_AARCH64} -L ${WEFT_SYSROOT})
endif()
