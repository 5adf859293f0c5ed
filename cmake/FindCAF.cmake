# Finds CAF and makes CAF::core and CAF::io, the names that CAF's own package exports
# (and CAF::test, which Debian's CAF has not). CAF since 0.18 brings such a package, and it
# is preferred (-DCMAKE_PREFIX_PATH=<installation>); Debian's CAF 0.17 has none.
find_package(CAF CONFIG QUIET COMPONENTS ${CAF_FIND_COMPONENTS})
if(CAF_FOUND)
  foreach(component IN ITEMS core io test)
    if(TARGET CAF::${component})
      set(CAF_${component}_FOUND TRUE)
    endif()
  endforeach()
  include(FindPackageHandleStandardArgs)
  find_package_handle_standard_args(CAF CONFIG_MODE HANDLE_COMPONENTS)
  return()
endif()

find_path(CAF_INCLUDE_DIR caf/all.hpp)
mark_as_advanced(CAF_INCLUDE_DIR)
if(CAF_INCLUDE_DIR)
  file(STRINGS "${CAF_INCLUDE_DIR}/caf/config.hpp" version
       REGEX "#define CAF_VERSION [0-9]+")
  string(REGEX MATCH "[0-9]+" version "${version}")
  math(EXPR major "${version} / 10000")
  math(EXPR minor "${version} / 100 % 100")
  math(EXPR patch "${version} % 100")
  set(CAF_VERSION "${major}.${minor}.${patch}")
endif()
foreach(component IN ITEMS core io)
  find_library(CAF_${component}_LIBRARY "caf_${component}")
  mark_as_advanced(CAF_${component}_LIBRARY)
  if(CAF_${component}_LIBRARY)
    set(CAF_${component}_FOUND TRUE)
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  CAF
  REQUIRED_VARS CAF_core_LIBRARY CAF_INCLUDE_DIR
  VERSION_VAR CAF_VERSION
  HANDLE_COMPONENTS)

if(CAF_FOUND AND NOT TARGET CAF::core)
  find_package(Threads REQUIRED)
  # An imported target's headers are system headers: CAF's own do not pass the
  # warnings that this project builds with.
  add_library(CAF::core UNKNOWN IMPORTED)
  set_target_properties(
    CAF::core PROPERTIES
    IMPORTED_LOCATION "${CAF_core_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES Threads::Threads)
  if(CAF_io_FOUND)
    add_library(CAF::io UNKNOWN IMPORTED)
    set_target_properties(
      CAF::io PROPERTIES
      IMPORTED_LOCATION "${CAF_io_LIBRARY}"
      INTERFACE_LINK_LIBRARIES CAF::core)
  endif()
endif()
