# What users link: one shared library made of all rooms, the public headers, and a CMake package.
# Rooms stay static inside the tree; the library's private dependencies don't reach its users.

include(CMakePackageConfigHelpers)

set(weft_rooms base p2p runtime pslib c)
list(TRANSFORM weft_rooms PREPEND weft_)

# All objects of the rooms, whether the library itself needs them or not; linking the rooms as well
# brings what they in turn are linked with.
add_library(weft SHARED)
set_target_properties(weft PROPERTIES VERSION ${PROJECT_VERSION}
                                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
foreach(room IN LISTS weft_rooms)
  target_sources(weft PRIVATE $<TARGET_OBJECTS:${room}>)
endforeach()
target_link_libraries(weft PRIVATE ${weft_rooms})
target_compile_features(weft INTERFACE cxx_std_20)
target_include_directories(weft INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                          $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/bindings/c/include>
                                          $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
add_library(weft::weft ALIAS weft)

# What a trainer names; today the same library.
add_library(weft_pslib_package INTERFACE)
set_target_properties(weft_pslib_package PROPERTIES EXPORT_NAME pslib)
target_link_libraries(weft_pslib_package INTERFACE weft)

install(TARGETS weft weft_pslib_package EXPORT weftTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/bindings/c/include/weft.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT weftTargets NAMESPACE weft:: FILE weftTargets.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/weftConfig.cmake.in ${PROJECT_BINARY_DIR}/weftConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weftConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weftConfig.cmake ${PROJECT_BINARY_DIR}/weftConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
