# Tests carry their suite as a CTest label; `./dev test` runs them suite by suite. Exit code 77, and
# a GoogleTest whose every test was skipped, count as skipped.
include(GoogleTest)

add_library(weft_test_main STATIC ${PROJECT_SOURCE_DIR}/tests/test_main.cpp)
target_link_libraries(weft_test_main PUBLIC GTest::gtest PRIVATE weft_settings)

# What the sanitizers run.
add_custom_target(in_process_tests)

# A GoogleTest program in one process; every test in it is a CTest test of its own. Under a sanitizer or
# in emulation, and of the suite conformance, the program is one: there the start and end of a process cost more
# than most tests.
#   weft_test(name SUITE unit SOURCES a_test.cpp [LINKS weft::base] [TIMEOUT seconds] [ONE_THREAD] [LONG_CUT] [STARTS_PROGRAMS])
# ONE_THREAD: what it tests has no second thread, so ThreadSanitizer has nothing to look for in it, and
# another test may run beside it. LONG_CUT: under a sanitizer, only when the build is configured with
# WEFT_TEST_FULL=1 in the environment.
# STARTS_PROGRAMS: of this build; in emulation it is only compiled, since what it starts would be for another machine.
function(weft_test name)
  cmake_parse_arguments(TEST "ONE_THREAD;LONG_CUT;STARTS_PROGRAMS" "SUITE;TIMEOUT" "SOURCES;LINKS" ${ARGN})
  if(NOT TEST_SUITE)
    message(FATAL_ERROR "weft_test(${name}): say which SUITE it belongs to")
  endif()
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 60)
  endif()
  if(TEST_ONE_THREAD OR TEST_SUITE STREQUAL "unit")
    set(processors 1)
  else()
    set(processors 2)
  endif()
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE weft_settings weft_test_main ${TEST_LINKS})
  if((TEST_ONE_THREAD AND WEFT_SANITIZE STREQUAL "thread")
     OR (TEST_LONG_CUT AND WEFT_SANITIZE AND NOT "$ENV{WEFT_TEST_FULL}" STREQUAL "1"))
    return()
  endif()
  add_dependencies(in_process_tests ${name})
  if(TEST_STARTS_PROGRAMS AND CMAKE_CROSSCOMPILING)
    add_test(NAME ${name} COMMAND sh -c "echo 'skipped: it starts programs, which are not emulated'; exit 77")
    set_tests_properties(${name} PROPERTIES LABELS ${TEST_SUITE} SKIP_RETURN_CODE 77)
  elseif(WEFT_SANITIZE OR CMAKE_CROSSCOMPILING OR TEST_SUITE STREQUAL "conformance")
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS ${TEST_SUITE} TIMEOUT 600 PROCESSORS
                                            ${processors})
  else()
    gtest_discover_tests(
      ${name}
      TEST_PREFIX ${name}:
      DISCOVERY_MODE PRE_TEST
      DISCOVERY_TIMEOUT 60
      PROPERTIES LABELS ${TEST_SUITE} TIMEOUT ${TEST_TIMEOUT} PROCESSORS ${processors})
  endif()
endfunction()

# A program (a target of this build, or a path) as NP ranks under mpirun: one CTest test.
#   weft_rank_test(name NP 4 SUITE ranks [TIMEOUT seconds] [FLAGS --enable-recovery]
#                  [ENVIRONMENT NAME=value ...] COMMAND target args...)
function(weft_rank_test name)
  cmake_parse_arguments(TEST "" "NP;SUITE;TIMEOUT" "FLAGS;ENVIRONMENT;COMMAND" ${ARGN})
  if(NOT TEST_SUITE OR NOT TEST_NP OR NOT TEST_COMMAND)
    message(FATAL_ERROR "weft_rank_test(${name}): NP, SUITE and COMMAND are needed")
  endif()
  list(POP_FRONT TEST_COMMAND program)
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  if(WEFT_MPIRUN)
    weft_command_test(
      ${name}
      SUITE ${TEST_SUITE}
      TIMEOUT ${TEST_TIMEOUT}
      ENVIRONMENT ${TEST_ENVIRONMENT}
      COMMAND ${WEFT_MPIRUN} ${WEFT_MPIRUN_FLAGS} ${TEST_FLAGS} -n ${TEST_NP} ${program}
              ${TEST_COMMAND})
  else()
    weft_command_test(${name} SUITE ${TEST_SUITE} COMMAND
                      sh -c "echo 'skipped: no mpirun on this machine (./dev setup)'; exit 77")
  endif()
endfunction()

# Any command as one CTest test, alone on the machine while it runs.
#   weft_command_test(name SUITE install [TIMEOUT seconds] [ENVIRONMENT NAME=value ...] COMMAND ...)
function(weft_command_test name)
  cmake_parse_arguments(TEST "" "SUITE;TIMEOUT" "ENVIRONMENT;COMMAND" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  # Emulation runs one program, none that it starts: there a command is of no suite.
  if(CMAKE_CROSSCOMPILING)
    set(TEST_SUITE "starts programs")
  endif()
  add_test(NAME ${name} COMMAND ${TEST_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS ${TEST_SUITE} TIMEOUT ${TEST_TIMEOUT}
                                          SKIP_RETURN_CODE 77 RUN_SERIAL TRUE)
  if(TEST_ENVIRONMENT)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "${TEST_ENVIRONMENT}")
  endif()
endfunction()
