# Defines a program for users. It is installed; in packages it has a manual page made from its --help. Its
# package is weft-tools unless COMPONENT names another.
#   weft_tool(weft-info "show what this weft is made of" [COMPONENT topo])
function(weft_tool name about)
  cmake_parse_arguments(TOOL "" "COMPONENT" "" ${ARGN})
  if(NOT TOOL_COMPONENT)
    set(TOOL_COMPONENT tools)
  endif()
  install(TARGETS ${name} COMPONENT ${TOOL_COMPONENT})
  if(WEFT_PACKAGES)
    set(page ${PROJECT_BINARY_DIR}/manual/${name}.1)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/manual)
    add_custom_command(
      OUTPUT ${page}.gz
      COMMAND help2man --no-info --name=${about} --version-string=${PROJECT_VERSION}
              --output=${page} $<TARGET_FILE:${name}>
      COMMAND gzip -9nf ${page}
      DEPENDS ${name}
      VERBATIM)
    add_custom_target(${name}-manual ALL DEPENDS ${page}.gz)
    install(FILES ${page}.gz DESTINATION share/man/man1 COMPONENT ${TOOL_COMPONENT})
  endif()
endfunction()
