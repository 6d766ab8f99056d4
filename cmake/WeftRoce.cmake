# Tests on the guests of tests/roce: emulated hosts with a Soft-RoCE device. The fixture roce_guests
# (tests/roce/CMakeLists.txt) boots one pair for all tests.

# Runs a command as one CTest test of the suite roce. With NP, the command is a program with NP ranks.
#   weft_roce_test(name [GUESTS 1|2] [NP n] [LOSS 1%] [TIMEOUT seconds] [ENVIRONMENT NAME=value ...]
#                  [ON_HOST] [FULL] COMMAND target args...)
# GUESTS: 1 (the default) runs all ranks in node0, 2 half of them on each guest. LOSS: the packet loss of the
# guests' network in each direction. TIMEOUT: of the command, without booting. ON_HOST: the command runs on
# this machine and controls the guests by ${WEFT_ROCE_GUESTS}, for example to cut their power. FULL: only
# with WEFT_TEST_FULL=1.
set(WEFT_ROCE_GUESTS ${PROJECT_SOURCE_DIR}/tests/roce/guests)
set(WEFT_ROCE_STATE ${PROJECT_BINARY_DIR}/tests/roce/guests)

function(weft_roce_test name)
  cmake_parse_arguments(TEST "ON_HOST;FULL" "GUESTS;NP;LOSS;TIMEOUT" "ENVIRONMENT;COMMAND" ${ARGN})
  if(NOT TEST_COMMAND)
    message(FATAL_ERROR "weft_roce_test(${name}): COMMAND is needed")
  endif()
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  if(NOT TEST_GUESTS)
    set(TEST_GUESTS 1)
  endif()
  list(POP_FRONT TEST_COMMAND program)
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  set(command ${program} ${TEST_COMMAND})
  if(TEST_NP)
    set(command bash ${PROJECT_SOURCE_DIR}/tests/roce/ranks.sh ${TEST_GUESTS} ${TEST_NP} ${command})
  endif()
  if(NOT TEST_ON_HOST)
    set(options --seconds ${TEST_TIMEOUT})
    if(TEST_LOSS)
      list(APPEND options --loss ${TEST_LOSS})
    endif()
    set(command ${WEFT_ROCE_GUESTS} run ${options} -- ${command})
  endif()
  if(TEST_FULL)
    set(command bash ${PROJECT_SOURCE_DIR}/tests/roce/full.sh ${command})
  endif()
  # Guests that an earlier test ended are booted again, which takes minutes on a busy machine.
  math(EXPR limit "${TEST_TIMEOUT} + 480")
  weft_command_test(
    ${name}
    SUITE roce
    TIMEOUT ${limit}
    ENVIRONMENT WEFT_GUESTS=${WEFT_ROCE_STATE} ${TEST_ENVIRONMENT}
    COMMAND ${command})
  set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED roce_guests)
endfunction()
