# One room of the house: a static library weft_<name>, known to the others as weft::<name>.
# A room links only what stands below it, so an include that points up does not link.
#   weft_room(p2p SOURCES a.cpp b.cpp LINKS weft::base [PUBLIC_LINKS ...])
function(weft_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINKS;PUBLIC_LINKS" ${ARGN})
  add_library(weft_${name} STATIC ${ROOM_SOURCES})
  add_library(weft::${name} ALIAS weft_${name})
  target_link_libraries(weft_${name} PUBLIC weft_settings ${ROOM_PUBLIC_LINKS} PRIVATE ${ROOM_LINKS})
endfunction()
