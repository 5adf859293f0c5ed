# What is installed: the libraries, their headers, gdctl with its man pages and
# completions, a CMake package and files for pkg-config.

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/gen_durable")
set(out "${PROJECT_BINARY_DIR}/package")

set(GD_COMPONENTS core testing)
if(GD_BUILD_ACTORS)
  list(APPEND GD_COMPONENTS actors network)
endif()
if(TARGET gen_durable_actors_testing)
  list(APPEND GD_COMPONENTS actors_testing)
endif()
if(GD_BUILD_METRICS)
  list(APPEND GD_COMPONENTS metrics)
endif()

# -- files ---------------------------------------------------------------------

foreach(part IN LISTS GD_COMPONENTS)
  install(TARGETS gen_durable_${part} EXPORT gen_durable_${part}
    RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}"
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT gen_durable_${part}
    DESTINATION "${package_dir}"
    NAMESPACE gen_durable::
    FILE ${part}-targets.cmake)
endforeach()

# What users include, which includes nothing else of ours.
install(DIRECTORY libgd/gd
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.hpp"
  PATTERN client EXCLUDE
  PATTERN engine EXCLUDE
  PATTERN pq EXCLUDE
  PATTERN store EXCLUDE)
install(DIRECTORY testing/gd
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.hpp")
if(GD_BUILD_ACTORS)
  install(DIRECTORY actors/gd/actors network/gd/actors
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/gd"
    FILES_MATCHING REGEX "/gd/actors/[a-z_]+\\.hpp$"
    PATTERN gateway EXCLUDE
    PATTERN node EXCLUDE
    PATTERN queue EXCLUDE)
endif()
if(TARGET gen_durable_actors_testing)
  install(DIRECTORY testing/actors/gd
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
    FILES_MATCHING PATTERN "*.hpp")
endif()

if(GD_BUILD_METRICS)
  install(FILES metrics/gd/metrics.hpp DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/gd")
  install(FILES docs/run/alerts.yml docs/run/grafana.json DESTINATION "${CMAKE_INSTALL_DATADIR}/gen_durable")
endif()

if(TARGET gdctl)
  install(TARGETS gdctl RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
if(TARGET gdctl_pages)
  install(DIRECTORY "${GD_PAGES}/man1" DESTINATION "${CMAKE_INSTALL_MANDIR}")
  install(FILES "${GD_PAGES}/gdctl"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
  install(FILES "${GD_PAGES}/_gdctl"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
  install(FILES "${GD_PAGES}/gdctl.fish"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
endif()

# The rights of roles, for psql.
install(DIRECTORY sql/grants
  DESTINATION "${CMAKE_INSTALL_DATADIR}/gen_durable"
  FILES_MATCHING PATTERN "*.sql")

# A template for systemd, whose programs are found beside gdctl.
install(CODE "set(GD_BIN_DIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
configure_file(\"${PROJECT_SOURCE_DIR}/packaging/gen-durable-worker@.service.in\"
  \"${out}/gen-durable-worker@.service\" @ONLY)")
install(FILES "${out}/gen-durable-worker@.service" DESTINATION lib/systemd/system)

# -- find_package --------------------------------------------------------------

if(GD_BUILD_ACTORS)
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/FindCAF.cmake"
    DESTINATION "${package_dir}")
endif()

set(GD_SHARED FALSE)
if(BUILD_SHARED_LIBS)
  set(GD_SHARED TRUE)
endif()
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/gen_durable-config.cmake.in"
  "${out}/gen_durable-config.cmake"
  INSTALL_DESTINATION "${package_dir}"
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${out}/gen_durable-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(
  FILES "${out}/gen_durable-config.cmake" "${out}/gen_durable-config-version.cmake"
  DESTINATION "${package_dir}")

# -- pkg-config ----------------------------------------------------------------

# gd_pkg_config(<part> <description> REQUIRES <package>... LIBS <flag>...
#               CFLAGS <flag>...)
function(gd_pkg_config part description)
  cmake_parse_arguments(PARSE_ARGV 2 GD "" "" "REQUIRES;LIBS;CFLAGS")
  set(GD_NAME gen_durable_${part})
  set(GD_DESCRIPTION "${description}")
  # Found from where the file is, so that an installation can be moved.
  file(RELATIVE_PATH GD_PREFIX
    "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
  list(JOIN GD_REQUIRES ", " GD_REQUIRES)
  list(JOIN GD_LIBS " " GD_LIBS)
  list(JOIN GD_CFLAGS " " GD_CFLAGS)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/package.pc.in"
                 "${out}/${GD_NAME}.pc" @ONLY)
  install(FILES "${out}/${GD_NAME}.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endfunction()

# What a static library needs to be linked with; a shared one knows by itself.
set(requires "")
if(NOT BUILD_SHARED_LIBS)
  set(requires libpq fmt simdjson)
endif()
gd_pkg_config(core "Durable finite state machines in PostgreSQL"
  REQUIRES ${requires}
  LIBS ${CMAKE_THREAD_LIBS_INIT})
gd_pkg_config(testing "Tests of gen_durable's machines, without an engine"
  REQUIRES "gen_durable_core = ${PROJECT_VERSION}")

if(GD_BUILD_ACTORS)
  # CAF has no files for pkg-config.
  set(modules core io)
  if(TARGET CAF::test)
    list(APPEND modules test)
  endif()
  foreach(module IN LISTS modules)
    set(libs_${module} "")
    set(cflags_${module} "")
    get_target_property(location CAF::${module} LOCATION)
    cmake_path(GET location PARENT_PATH dir)
    if(NOT dir IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
      list(APPEND libs_${module} "-L${dir}")
    endif()
    list(APPEND libs_${module} "-lcaf_${module}")
    get_target_property(dirs CAF::${module} INTERFACE_INCLUDE_DIRECTORIES)
    foreach(dir IN LISTS dirs)
      if(dir AND NOT dir IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
        list(APPEND cflags_${module} "-isystem ${dir}")
      endif()
    endforeach()
  endforeach()
  gd_pkg_config(actors "gen_durable's engine, for CAF ${CAF_VERSION}"
    REQUIRES "gen_durable_core = ${PROJECT_VERSION}"
    LIBS ${libs_core} CFLAGS ${cflags_core})
  set(requires "")
  if(NOT BUILD_SHARED_LIBS)
    set(requires libcrypto)
  endif()
  gd_pkg_config(network "gen_durable's gateway and workers on other CAF nodes"
    REQUIRES "gen_durable_actors = ${PROJECT_VERSION}" ${requires}
    LIBS ${libs_io} CFLAGS ${cflags_io})
endif()
if(TARGET gen_durable_actors_testing)
  gd_pkg_config(actors_testing "Tests of machines with asynchronous steps, without an engine"
    REQUIRES "gen_durable_actors = ${PROJECT_VERSION}, gen_durable_testing = ${PROJECT_VERSION}"
    LIBS ${libs_test})
endif()
if(GD_BUILD_METRICS)
  gd_pkg_config(metrics "gen_durable's metrics for Prometheus"
    REQUIRES "gen_durable_core = ${PROJECT_VERSION}" prometheus-cpp-core)
endif()
