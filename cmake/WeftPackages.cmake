# Debian packages, made by CPack: libweft4 (the library), libweft-dev (headers and build files), weft-tools,
# weft-topo, the same two of weft::operators, libweft-operators4 and libweft-operators-dev, and python3-weft. `./dev package`
# configures with WEFT_PACKAGES, prefix /usr. A file goes into the package of its install component: runtime, dev,
# tools, topo, operators, operators_dev or python.
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  message(FATAL_ERROR "WEFT_PACKAGES: Debian packages install into /usr, not ${CMAKE_INSTALL_PREFIX}; "
                      "configure with -DCMAKE_INSTALL_PREFIX=/usr, or use ./dev package")
endif()
set(WEFT_MAINTAINER "weft developers <weft@example.org>" CACHE STRING "Maintainer named in packages")

set(weft_changelog ${PROJECT_BINARY_DIR}/changelog.gz)
execute_process(COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/cmake/debian/changelog
                OUTPUT_FILE ${weft_changelog} COMMAND_ERROR_IS_FATAL ANY)
set(weft_packages runtime libweft${WEFT_ABI} dev libweft-dev tools weft-tools topo weft-topo)
set(CPACK_COMPONENTS_ALL runtime dev tools topo)
if(WEFT_HAS_OPERATORS)
  list(APPEND weft_packages operators libweft-operators${WEFT_ABI} operators_dev libweft-operators-dev)
  list(APPEND CPACK_COMPONENTS_ALL operators operators_dev)
endif()
if(WEFT_HAS_PYTHON)
  list(APPEND weft_packages python python3-weft)
  list(APPEND CPACK_COMPONENTS_ALL python)
endif()
while(weft_packages)
  list(POP_FRONT weft_packages component package)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/debian/copyright ${weft_changelog}
          DESTINATION share/doc/${package} COMPONENT ${component})
endwhile()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/mpirun_examples/link
        DESTINATION share/doc/libweft-dev/examples COMPONENT dev)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weft)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT ${WEFT_MAINTAINER})
# Emptied: CPack would prepend it to every package's description, whose first line is a summary already.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# Dependencies on other packages' libraries, and the dependency of programs linked with libweft.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# The kernels' library needs libweft, which is in no installed package yet.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(weft_description
    "tensor transfers between the ranks of a training job
Ranks that a launcher has started put whole tensors into each other's
registered memory, without remote procedure calls and without a copy in the
steady state. A parameter server is built on top.")

set(weft_same_version "libweft${WEFT_ABI} (= ${PROJECT_VERSION})")
# CPack would call ldconfig from a postinst and a postrm unless some exist already. Debian has a trigger
# for it; naming scripts that don't exist suppresses CPack's own.
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/debian/triggers
                                               /nonexistent/postinst /nonexistent/postrm)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
# libpmix is loaded at run time for jobs of mpirun and srun, libibverbs if installed; within a host it is never needed.
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS libpmix2)
if(WEFT_HAS_VERBS)
  string(APPEND CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS ", libibverbs1, librdmacm1, ibverbs-providers")
endif()
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "${weft_description}\n\nThis package has the shared library.")

set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS ${weft_same_version})
set(CPACK_COMPONENT_DEV_DESCRIPTION
    "${weft_description}\n\nThis package has headers for C++20 and C, and files for CMake and pkg-config.")

# The tools link weft's rooms themselves, since they show what the library hides. Their output is correct
# only for a library of the same version.
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS ${weft_same_version})
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS openmpi-bin)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION
    "${weft_description}\n\nThis package has weft-info, which shows version, machine and settings,
weft-status, which shows what running ranks do and who is late, weft-trace,
which shows their recordings, weft-chaos, which tries a job's mettle, and weft-tune,
which measures what its collectives cost.")

# The kernels' library depends on the library, and programs on both, by their shlibs.
set(CPACK_DEBIAN_OPERATORS_PACKAGE_CONTROL_EXTRA ${CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA})
set(CPACK_DEBIAN_OPERATORS_PACKAGE_SECTION libs)
# Debian's oneDNN claims that 2.0 serves its programs; the kernels use calls of 2.6.
set(CPACK_DEBIAN_OPERATORS_PACKAGE_DEPENDS "${weft_same_version}, libdnnl2 (>= 2.6)")
set(CPACK_COMPONENT_OPERATORS_DESCRIPTION
    "kernels for the dataflow graphs of weft, by oneDNN
Products, convolutions, pools, normalisation, recurrent and other operators of
a training step, forwards and backwards, for those who run weft's graphs
without an engine of their own.

This package has the shared library.")
set(CPACK_DEBIAN_OPERATORS_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_OPERATORS_DEV_PACKAGE_DEPENDS
    "libweft-operators${WEFT_ABI} (= ${PROJECT_VERSION}), libweft-dev (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_OPERATORS_DEV_DESCRIPTION
    "kernels for the dataflow graphs of weft, by oneDNN: to build with
Products, convolutions, pools, normalisation, recurrent and other operators of
a training step, forwards and backwards.

This package has the header, and files for CMake and pkg-config.")

# One compiled file for all of Debian's interpreters, by Python's stable ABI.
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/debian/python/postinst
                                              ${PROJECT_SOURCE_DIR}/cmake/debian/python/prerm)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
    "${weft_same_version}, python3 (>= 3.9), python3-cffi-backend, python3-numpy")
set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS "openmpi-bin, weft-tools, weft-topo")
set(CPACK_COMPONENT_PYTHON_DESCRIPTION
    "${weft_description}\n\nThis package has the module weft of Python 3, for arrays of numpy.")

# weft-topo is useful without weft: it depends neither on the library nor on its version.
set(CPACK_DEBIAN_TOPO_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TOPO_PACKAGE_SUGGESTS hwloc)
set(CPACK_COMPONENT_TOPO_DESCRIPTION
    "which NIC, GPU and NUMA node of a machine belong together
weft-topo shows how GPUs, NICs and NUMA nodes of a machine are wired, which
NIC serves which GPU, and why: as matrix, tree, picture, JSON, or as a
topology file for NCCL or Mooncake. It reads the machine that it runs on, or
files of hwloc and NCCL. Its doctor finds what hinders RDMA and GPUDirect, and
says what to do.")

include(CPack)
