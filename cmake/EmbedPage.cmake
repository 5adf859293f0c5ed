# gd_embed_page(<target> <folder>): the files that browsers get, in <gdctl/page.hpp> for
# that target: gdctl::page::index_html is the text of index.html. Editing, adding or
# removing a file re-runs this.
function(gd_embed_page target folder)
  set(out "${PROJECT_BINARY_DIR}/generated/page")
  set(GD_PAGE "")
  file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.*")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  foreach(file IN LISTS files)
    get_filename_component(name "${file}" NAME)
    string(REPLACE "." "_" name "${name}")
    # As bytes: a text may end any literal, and CMake's lists end at semicolons.
    file(READ "${file}" bytes HEX)
    string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
    string(REGEX REPLACE "(................................................................................)"
      "\\1\"\n  \"" bytes "${bytes}")
    string(APPEND GD_PAGE "inline constexpr std::string_view ${name} =\n  \"${bytes}\";\n\n")
  endforeach()
  configure_file("${PROJECT_SOURCE_DIR}/cmake/page.hpp.in" "${out}/gdctl/page.hpp" @ONLY)
  target_include_directories(${target} PRIVATE "${out}")
endfunction()
