# Toolchain file: builds weft for aarch64 on another machine, with Debian's cross compiler; programs run in
# QEMU's user-mode emulation. WEFT_SYSROOT is a folder with the arm64 packages that weft is built from
# (made by tests/aarch64/sysroot).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES WEFT_SYSROOT)
if(NOT IS_DIRECTORY "${WEFT_SYSROOT}/usr/include")
  message(FATAL_ERROR "WEFT_SYSROOT is no folder of arm64 packages: '${WEFT_SYSROOT}'")
endif()

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# Silences GCC's note that GCC 9 passed pairs of doubles differently.
set(CMAKE_CXX_FLAGS_INIT -Wno-psabi)
set(CMAKE_SYSROOT ${WEFT_SYSROOT})
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# Programs are searched on this machine, everything else in the sysroot.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# pkg-config learns of another root only from its own environment variables.
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${WEFT_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${WEFT_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${WEFT_SYSROOT}/usr/share/pkgconfig)

find_program(WEFT_QEMU_AARCH64 NAMES qemu-aarch64 qemu-aarch64-static)
if(WEFT_QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${WEFT_QEMU_AARCH64} -L ${WEFT_SYSROOT})
endif()
