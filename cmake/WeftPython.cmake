# The interpreter of the Python package: the first of python3 and /usr/bin/python3 that has cffi, numpy and its C headers
# (or the one that WEFT_PYTHON_EXECUTABLE names). Sets WEFT_HAS_PYTHON, WEFT_PYTHON_INCLUDE, and WEFT_PYTHON_LACK, which
# says what is missing.
set(WEFT_HAS_PYTHON OFF)
set(WEFT_PYTHON_LACK "")
set(WEFT_PYTHON_EXECUTABLE "" CACHE FILEPATH "The interpreter that the Python package is built and tested with")

function(weft_try_python interpreter)
  execute_process(
    COMMAND ${interpreter} -c "
import os, sys, sysconfig
lacking = []
for module in ('cffi', 'numpy'):
    try: __import__(module)
    except ImportError: lacking.append(module)
include = sysconfig.get_paths()['include']
if not os.path.exists(os.path.join(include, 'Python.h')): lacking.append('Python.h')
if sys.version_info < (3, 9): lacking.append('version 3.9')
print(include if not lacking else sys.executable + ' lacks ' + ', '.join(lacking))
sys.exit(bool(lacking))"
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE result)
  if(result EQUAL 0)
    set(WEFT_HAS_PYTHON ON PARENT_SCOPE)
    set(WEFT_PYTHON_INTERPRETER ${interpreter} PARENT_SCOPE)
    set(WEFT_PYTHON_INCLUDE ${answer} PARENT_SCOPE)
  elseif(answer)
    list(APPEND WEFT_PYTHON_LACK "${answer}")
    set(WEFT_PYTHON_LACK "${WEFT_PYTHON_LACK}" PARENT_SCOPE)
  endif()
endfunction()

# pip names the interpreter that it builds for.
if(SKBUILD AND NOT WEFT_PYTHON_EXECUTABLE)
  set(WEFT_PYTHON_EXECUTABLE ${Python_EXECUTABLE})
endif()
if(WEFT_PYTHON)
  if(WEFT_SANITIZE)
    set(WEFT_PYTHON_LACK "an interpreter without a sanitizer can't load this libweft")
  elseif(CMAKE_CROSSCOMPILING)
    set(WEFT_PYTHON_LACK "it is built for another machine")
  elseif(WEFT_PYTHON_EXECUTABLE)
    weft_try_python(${WEFT_PYTHON_EXECUTABLE})
  else()
    find_program(WEFT_PYTHON3 python3)
    foreach(interpreter IN ITEMS ${WEFT_PYTHON3} /usr/bin/python3)
      if(NOT WEFT_HAS_PYTHON)
        weft_try_python(${interpreter})
      endif()
    endforeach()
  endif()
  list(REMOVE_DUPLICATES WEFT_PYTHON_LACK)
  list(JOIN WEFT_PYTHON_LACK ", and " WEFT_PYTHON_LACK)
  if(NOT WEFT_PYTHON_LACK)
    set(WEFT_PYTHON_LACK "there is no python3")
  endif()
  if(NOT WEFT_HAS_PYTHON AND NOT WEFT_PYTHON STREQUAL "AUTO")
    list(APPEND weft_missing "cffi, numpy and Python.h (WEFT_PYTHON is ${WEFT_PYTHON}; ${WEFT_PYTHON_LACK})")
  endif()
else()
  set(WEFT_PYTHON_LACK "WEFT_PYTHON is ${WEFT_PYTHON}")
endif()
