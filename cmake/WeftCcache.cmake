# Uses ccache if it is installed, so that switching presets or branches costs seconds.
find_program(WEFT_CCACHE ccache)
if(WEFT_CCACHE)
  foreach(language C CXX)
    if(NOT CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER ${WEFT_CCACHE})
    endif()
  endforeach()
endif()
