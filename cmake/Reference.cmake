# The reference of what users include: the target `reference` writes it to
# <build>/reference/html/index.html. It fails where anything public is not
# documented, or documented wrongly. gd_reference(<header>...)

find_package(Doxygen 1.9 QUIET)

function(gd_reference)
  set(DOXYGEN_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/reference")
  set(DOXYGEN_USE_MDFILE_AS_MAINPAGE "${PROJECT_SOURCE_DIR}/docs/reference.md")
  set(DOXYGEN_STRIP_FROM_PATH
    "${PROJECT_SOURCE_DIR}/libgd" "${PROJECT_SOURCE_DIR}/actors"
    "${PROJECT_SOURCE_DIR}/network"
    "${PROJECT_SOURCE_DIR}/testing/actors" "${PROJECT_SOURCE_DIR}/testing" "${PROJECT_SOURCE_DIR}")
  set(DOXYGEN_STRIP_FROM_INC_PATH ${DOXYGEN_STRIP_FROM_PATH})
  set(DOXYGEN_GENERATE_LATEX NO)
  set(DOXYGEN_HAVE_DOT NO)
  set(DOXYGEN_SOURCE_BROWSER NO)
  set(DOXYGEN_VERBATIM_HEADERS NO)
  set(DOXYGEN_SHOW_INCLUDE_FILES YES)
  set(DOXYGEN_SORT_MEMBER_DOCS NO)
  set(DOXYGEN_JAVADOC_AUTOBRIEF YES)
  set(DOXYGEN_BUILTIN_STL_SUPPORT YES)
  set(DOXYGEN_HIDE_FRIEND_COMPOUNDS YES)
  set(DOXYGEN_EXCLUDE_SYMBOLS "*::detail" "*::detail::*" "gd::store*")
  # GD_STATE would make members of its own; what CAF's macros make is for CAF.
  set(DOXYGEN_MACRO_EXPANSION YES)
  set(DOXYGEN_EXPAND_ONLY_PREDEF YES)
  set(DOXYGEN_PREDEFINED
    "GD_STATE(...)=" "GD_FIELDS(...)=" "GD_CAF_017=1" "CAF_ERROR_CODE_ENUM(...)=")
  set(DOXYGEN_QUIET YES)
  set(DOXYGEN_WARN_IF_UNDOCUMENTED YES)
  set(DOXYGEN_WARN_AS_ERROR FAIL_ON_WARNINGS)
  doxygen_add_docs(reference ${ARGN} docs/reference.md
    COMMENT "The reference of the public API: reference/html/index.html")
endfunction()
