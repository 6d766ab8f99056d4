# Under a sanitizer, the headers that most rooms include are parsed once for all of them. Not in other builds: the
# compiler's cache shares their objects between build folders, and a precompiled header is of one folder.
if(WEFT_SANITIZE)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/weft_headers.cpp CONTENT "")
  add_library(weft_headers OBJECT ${PROJECT_BINARY_DIR}/weft_headers.cpp)
  target_link_libraries(weft_headers PRIVATE weft_settings fmt::fmt)
  target_precompile_headers(
    weft_headers PRIVATE <algorithm> <array> <atomic> <cerrno> <chrono> <cstdint> <cstring> <deque> <functional> <map>
    <memory> <mutex> <optional> <set> <span> <stdexcept> <string> <string_view> <thread> <utility> <vector>
    <fmt/format.h>)
endif()

# Defines a room: the static library weft_<name> of one folder, known to the others as weft::<name>. A room
# links only rooms below it, so an include that points upwards does not link.
#   weft_room(p2p_slot IN_LIBRARY SOURCES a.cpp b.cpp LINKS weft::base [PUBLIC_LINKS ...])
# IN_LIBRARY: part of libweft.so. The global property WEFT_LIBRARY_ROOMS lists these rooms.
function(weft_room name)
  cmake_parse_arguments(ROOM "IN_LIBRARY" "" "SOURCES;LINKS;PUBLIC_LINKS" ${ARGN})
  add_library(weft_${name} STATIC ${ROOM_SOURCES})
  add_library(weft::${name} ALIAS weft_${name})
  target_link_libraries(weft_${name} PUBLIC weft_settings ${ROOM_PUBLIC_LINKS} PRIVATE ${ROOM_LINKS})
  if(WEFT_SANITIZE)
    target_precompile_headers(weft_${name} REUSE_FROM weft_headers)
  endif()
  if(ROOM_IN_LIBRARY)
    set_property(GLOBAL APPEND PROPERTY WEFT_LIBRARY_ROOMS weft_${name})
  endif()
endfunction()

# Defines one name for several rooms, for users of all of them: weft_rooms(p2p weft::p2p_slot ...)
function(weft_rooms name)
  add_library(weft_${name} INTERFACE)
  add_library(weft::${name} ALIAS weft_${name})
  target_link_libraries(weft_${name} INTERFACE ${ARGN})
endfunction()
