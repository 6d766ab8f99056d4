# Defines a room: the static library weft_<name> of one folder, known to the others as weft::<name>. A room
# links only rooms below it, so an include that points upwards does not link.
#   weft_room(p2p_slot IN_LIBRARY SOURCES a.cpp b.cpp LINKS weft::base [PUBLIC_LINKS ...])
# IN_LIBRARY: part of libweft.so. The global property WEFT_LIBRARY_ROOMS lists these rooms.
function(weft_room name)
  cmake_parse_arguments(ROOM "IN_LIBRARY" "" "SOURCES;LINKS;PUBLIC_LINKS" ${ARGN})
  add_library(weft_${name} STATIC ${ROOM_SOURCES})
  add_library(weft::${name} ALIAS weft_${name})
  target_link_libraries(weft_${name} PUBLIC weft_settings ${ROOM_PUBLIC_LINKS} PRIVATE ${ROOM_LINKS})
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
