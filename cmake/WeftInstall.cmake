# The installed parts: one shared library made of all rooms, the public headers, a CMake package and a
# pkg-config file. The rooms' static libraries are not installed, and the library's private dependencies
# don't reach its users.

include(CMakePackageConfigHelpers)

# The ABI generation: the number in libweft.so.N, in the symbols' version WEFT_N (weft.map) and in the
# Debian package's name. It is raised when existing programs must be linked again, and is independent of
# the project's version.
set(WEFT_ABI 4)

get_property(weft_rooms GLOBAL PROPERTY WEFT_LIBRARY_ROOMS)

# All objects of the rooms, whether the library itself needs them or not. Linking the rooms too adds
# their dependencies.
add_library(weft SHARED)
set_target_properties(weft PROPERTIES VERSION ${WEFT_ABI} SOVERSION ${WEFT_ABI})
foreach(room IN LISTS weft_rooms)
  target_sources(weft PRIVATE $<TARGET_OBJECTS:${room}>)
endforeach()
target_link_libraries(weft PRIVATE ${weft_rooms})
set(weft_map ${PROJECT_SOURCE_DIR}/cmake/weft.map)
target_link_options(weft PRIVATE LINKER:--version-script=${weft_map})
set_property(TARGET weft APPEND PROPERTY LINK_DEPENDS ${weft_map})
target_compile_features(weft INTERFACE cxx_std_20)
target_include_directories(weft INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                          $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/bindings/c/include>
                                          $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
add_library(weft::weft ALIAS weft)

# The name that trainers link; today the same library. pkg-config names libraries, so there it is weft too.
add_library(weft_pslib_package INTERFACE)
set_target_properties(weft_pslib_package PROPERTIES EXPORT_NAME pslib)
target_link_libraries(weft_pslib_package INTERFACE weft)

install(TARGETS weft weft_pslib_package EXPORT weftTargets
        LIBRARY COMPONENT runtime NAMELINK_COMPONENT dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/bindings/c/include/weft.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/bindings/c/include/weft/c
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft COMPONENT dev)

set(weft_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weftTargets NAMESPACE weft:: FILE weftTargets.cmake
        DESTINATION ${weft_package_folder} COMPONENT dev)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/weftConfig.cmake.in ${PROJECT_BINARY_DIR}/weftConfig.cmake
  INSTALL_DESTINATION ${weft_package_folder}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weftConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weftConfig.cmake ${PROJECT_BINARY_DIR}/weftConfigVersion.cmake
        DESTINATION ${weft_package_folder} COMPONENT dev)

# The relative path from the folder of weft.pc to the prefix, so that the installed tree can be moved.
set(weft_pc_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
string(REGEX REPLACE "[^/]+" ".." WEFT_PREFIX_FROM_PC ${weft_pc_folder})
configure_file(${PROJECT_SOURCE_DIR}/cmake/weft.pc.in ${PROJECT_BINARY_DIR}/weft.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/weft.pc DESTINATION ${weft_pc_folder} COMPONENT dev)

# weft::operators, a library of its own, so that libweft.so needs no oneDNN. It takes the same ABI generation.
if(WEFT_HAS_OPERATORS)
  set(weft_operators_map ${PROJECT_SOURCE_DIR}/cmake/weft-operators.map)
  add_library(weft_operators_package SHARED $<TARGET_OBJECTS:weft_operators>)
  set_target_properties(
    weft_operators_package PROPERTIES OUTPUT_NAME weft-operators EXPORT_NAME operators VERSION ${WEFT_ABI}
                                      SOVERSION ${WEFT_ABI} LINK_DEPENDS ${weft_operators_map})
  target_link_libraries(weft_operators_package PUBLIC weft PRIVATE weft_settings weft_onednn fmt::fmt)
  target_link_options(weft_operators_package PRIVATE LINKER:--version-script=${weft_operators_map} LINKER:--no-undefined)
  install(TARGETS weft_operators_package EXPORT weftOperatorsTargets
          LIBRARY COMPONENT operators NAMELINK_COMPONENT operators_dev)
  install(FILES ${PROJECT_SOURCE_DIR}/bindings/onednn/include/weft/operators.hpp
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft COMPONENT operators_dev)
  install(EXPORT weftOperatorsTargets NAMESPACE weft:: FILE weftOperatorsTargets.cmake
          DESTINATION ${weft_package_folder} COMPONENT operators_dev)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/weft-operators.pc.in ${PROJECT_BINARY_DIR}/weft-operators.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/weft-operators.pc DESTINATION ${weft_pc_folder} COMPONENT operators_dev)
endif()
