# What is built, and what is left out and why: nothing optional goes missing silently. Folders with
# optional parts of their own say so in the same form, "weft: left out: what (why)".
message(STATUS "weft ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} "
               "${CMAKE_CXX_COMPILER_VERSION}, binaries in ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
if(WEFT_SANITIZE)
  message(STATUS "weft: sanitizer ${WEFT_SANITIZE}")
endif()
foreach(part TESTS EXAMPLES BENCHMARKS)
  if(NOT WEFT_${part})
    string(TOLOWER ${part} name)
    message(STATUS "weft: left out: ${name} (WEFT_${part} is off)")
  endif()
endforeach()
if(NOT WEFT_MPIRUN)
  message(STATUS "weft: tests under mpirun will be skipped (openmpi-bin is not installed)")
endif()
