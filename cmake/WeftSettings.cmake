# Compile options of every weft target.
add_library(weft_settings INTERFACE)
target_include_directories(weft_settings INTERFACE ${PROJECT_SOURCE_DIR}
                                                   ${PROJECT_SOURCE_DIR}/include)
target_compile_features(weft_settings INTERFACE cxx_std_20)
target_compile_options(weft_settings INTERFACE -Wall -Wextra -Wpedantic -Werror)

set(WEFT_SANITIZE "" CACHE STRING "Value of -fsanitize=: empty, address,undefined or thread")
if(WEFT_SANITIZE)
  # For the whole tree, so that no target lacks instrumentation by mistake.
  add_compile_options(-fsanitize=${WEFT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${WEFT_SANITIZE})
  if(WEFT_SANITIZE MATCHES undefined)
    # A fifth of the time that weft takes to compile. AddressSanitizer reports the accesses that these look for.
    add_compile_options(-fno-sanitize=null,object-size,vptr)
  endif()
  if(WEFT_SANITIZE STREQUAL "thread")
    # ThreadSanitizer does not model atomic_thread_fence, and GCC warns at every one.
    target_compile_options(weft_settings INTERFACE -Wno-tsan)
  endif()
endif()
