# Tests on several hosts, simulated by network namespaces of this machine (tests/hosts/hosts).

# Runs a command as one CTest test of the suite hosts. With NP, the command is a program with NP ranks, spread
# evenly over the hosts; without, it runs on the first host.
#   weft_hosts_test(name [HOSTS 2] [NETWORKS 1] [CONGESTION_CONTROL name] [NP n] [TIMEOUT seconds]
#                   [ENVIRONMENT NAME=value ...] [FULL] COMMAND target args...)
# FULL: only with WEFT_TEST_FULL=1.
function(weft_hosts_test name)
  cmake_parse_arguments(TEST "FULL" "HOSTS;NETWORKS;CONGESTION_CONTROL;NP;TIMEOUT" "ENVIRONMENT;COMMAND" ${ARGN})
  if(NOT TEST_COMMAND)
    message(FATAL_ERROR "weft_hosts_test(${name}): COMMAND is needed")
  endif()
  if(NOT TEST_HOSTS)
    set(TEST_HOSTS 2)
  endif()
  if(NOT TEST_NETWORKS)
    set(TEST_NETWORKS 1)
  endif()
  list(POP_FRONT TEST_COMMAND program)
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  set(command ${program} ${TEST_COMMAND})
  set(here ${PROJECT_SOURCE_DIR}/tests/hosts)
  if(TEST_NP)
    set(command bash ${here}/ranks.sh ${TEST_NP} ${command})
  endif()
  set(congestion_control "")
  if(TEST_CONGESTION_CONTROL)
    set(congestion_control -c ${TEST_CONGESTION_CONTROL})
  endif()
  set(full "")
  if(TEST_FULL)
    set(full bash ${PROJECT_SOURCE_DIR}/tests/roce/full.sh)
  endif()
  weft_command_test(
    ${name}
    SUITE hosts
    TIMEOUT ${TEST_TIMEOUT}
    ENVIRONMENT ${TEST_ENVIRONMENT}
    COMMAND ${full} bash ${here}/hosts -n ${TEST_HOSTS} -w ${TEST_NETWORKS} ${congestion_control} -- ${command})
endfunction()
