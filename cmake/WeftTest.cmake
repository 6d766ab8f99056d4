# Each test has its suite as a CTest label; `./dev test` runs suite by suite. A test counts as skipped if
# it exits with code 77, or is a GoogleTest program whose tests were all skipped.
include(GoogleTest)

# Starts a driver: a Python program that starts jobs of its own and judges them. The drivers' modules are in
# tests/support.
find_program(WEFT_PYTHON3 python3)
set(WEFT_DRIVER env PYTHONPATH=${PROJECT_SOURCE_DIR}/tests/support ${WEFT_PYTHON3} -B)

# The test programs that run under sanitizers.
add_custom_target(in_process_tests)

# Defines a GoogleTest program in one process, each of whose tests is a CTest test. Under a sanitizer, in
# emulation and in the suite conformance the whole program is one CTest test, since there starting and
# ending a process costs more than most tests.
#   weft_test(name SUITE unit SOURCES a_test.cpp [LINKS weft::base] [TIMEOUT seconds] [ONE_THREAD] [WAITS] [LONG_CUT] [STARTS_PROGRAMS])
# ONE_THREAD: the code under test has no second thread, so ThreadSanitizer skips the program, and other
# tests may run beside it. WAITS: it waits more than it computes, and its limits are wide, so that another such test
# may run beside it. LONG_CUT: under a sanitizer, only if the build is configured with
# WEFT_TEST_FULL=1 in the environment. STARTS_PROGRAMS: starts programs of this build; in emulation the
# test is only compiled, since those programs are for another machine.
function(weft_test name)
  cmake_parse_arguments(TEST "ONE_THREAD;WAITS;LONG_CUT;STARTS_PROGRAMS" "SUITE;TIMEOUT" "SOURCES;LINKS" ${ARGN})
  if(NOT TEST_SUITE)
    message(FATAL_ERROR "weft_test(${name}): say which SUITE it belongs to")
  endif()
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 60)
  endif()
  # Under a sanitizer limits are wide, and most programs of the suite threads wait more than they compute.
  if(TEST_ONE_THREAD OR TEST_WAITS OR TEST_SUITE STREQUAL "unit" OR (WEFT_SANITIZE AND TEST_SUITE STREQUAL "threads"))
    set(processors 1)
  else()
    set(processors 2)
  endif()
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE weft_settings weft_test_main ${TEST_LINKS})
  target_precompile_headers(${name} REUSE_FROM weft_test_main)
  if((TEST_ONE_THREAD AND WEFT_SANITIZE STREQUAL "thread")
     OR (TEST_LONG_CUT AND WEFT_SANITIZE AND NOT "$ENV{WEFT_TEST_FULL}" STREQUAL "1"))
    return()
  endif()
  add_dependencies(in_process_tests ${name})
  if(TEST_STARTS_PROGRAMS AND CMAKE_CROSSCOMPILING)
    add_test(NAME ${name} COMMAND sh -c "echo 'skipped: it starts programs, which are not emulated' && exit 77")
    set_tests_properties(${name} PROPERTIES LABELS ${TEST_SUITE} SKIP_RETURN_CODE 77)
  elseif(WEFT_SANITIZE OR CMAKE_CROSSCOMPILING OR TEST_SUITE STREQUAL "conformance")
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS ${TEST_SUITE} TIMEOUT 600 PROCESSORS
                                            ${processors} SKIP_RETURN_CODE 77)
  else()
    gtest_discover_tests(
      ${name}
      TEST_PREFIX ${name}:
      DISCOVERY_MODE PRE_TEST
      DISCOVERY_TIMEOUT 60
      PROPERTIES LABELS ${TEST_SUITE} TIMEOUT ${TEST_TIMEOUT} PROCESSORS ${processors})
  endif()
endfunction()

# Runs a program (a target of this build, or a path) as NP ranks under mpirun, as one CTest test.
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
                      sh -c "echo 'skipped: no mpirun on this machine (./dev setup)' && exit 77")
  endif()
endfunction()

# Runs any command as one CTest test, alone on the machine.
#   weft_command_test(name SUITE install [TIMEOUT seconds] [ENVIRONMENT NAME=value ...] COMMAND ...)
function(weft_command_test name)
  cmake_parse_arguments(TEST "" "SUITE;TIMEOUT" "ENVIRONMENT;COMMAND" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  # Emulation runs one program but no programs that it starts, so commands belong to no suite there.
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

# Runs a driver as one CTest test, which is skipped if something that it needs is missing.
#   weft_driver_test(name SUITE faults DRIVER x.py [TIMEOUT seconds] [ENVIRONMENT NAME=value ...] [NEEDS train_charlm ...]
#                    [NO_LAUNCHER] [ARGUMENTS args...])
# The driver gets ARGUMENTS and then, except with NO_LAUNCHER, the launcher and its flags. NEEDS: targets of other folders
# that the build may leave out.
function(weft_driver_test name)
  cmake_parse_arguments(TEST "NO_LAUNCHER" "SUITE;DRIVER;TIMEOUT" "ENVIRONMENT;NEEDS;ARGUMENTS" ${ARGN})
  set(missing "")
  if(NOT WEFT_PYTHON3)
    list(APPEND missing python3)
  endif()
  set(launcher "")
  if(NOT TEST_NO_LAUNCHER)
    set(launcher ${WEFT_MPIRUN} ${WEFT_MPIRUN_FLAGS})
    if(NOT WEFT_MPIRUN)
      list(APPEND missing mpirun)
    endif()
  endif()
  foreach(target IN LISTS TEST_NEEDS)
    if(NOT TARGET ${target})
      list(APPEND missing ${target})
    endif()
  endforeach()
  if(missing)
    list(JOIN missing ", " missing)
    weft_command_test(${name} SUITE ${TEST_SUITE} COMMAND sh -c "echo 'skipped: needs ${missing}' && exit 77")
  else()
    weft_command_test(
      ${name}
      SUITE ${TEST_SUITE}
      TIMEOUT ${TEST_TIMEOUT}
      ENVIRONMENT ${TEST_ENVIRONMENT}
      COMMAND ${WEFT_DRIVER} ${CMAKE_CURRENT_SOURCE_DIR}/${TEST_DRIVER} ${TEST_ARGUMENTS} ${launcher})
  endif()
endfunction()
