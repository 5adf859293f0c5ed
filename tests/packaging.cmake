# What users build against: headers, exports, packages. Where sanitizers are on,
# none of it would be different, only slower.
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
  return()
endif()

find_program(BASH bash REQUIRED)
mark_as_advanced(BASH)

# -- headers -------------------------------------------------------------------

get_target_property(dirs CAF::core INTERFACE_INCLUDE_DIRECTORIES)
list(REMOVE_ITEM dirs ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
list(TRANSFORM dirs PREPEND -isystem)
set(parts libgd testing actors network)
if(GD_BUILD_METRICS)
  list(APPEND parts metrics)
endif()
if(TARGET gen_durable_actors_testing)
  list(APPEND parts testing/actors)
endif()
set(headers "")
foreach(part IN LISTS parts)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${part}/gd/*.hpp")
  list(APPEND headers ${found})
endforeach()
# What users include. The others are included by sources of ours, by each room's: all of
# them by themselves take minutes.
set(public "")
foreach(header IN LISTS headers)
  if(header IN_LIST public_headers)
    list(APPEND public "${header}")
  endif()
endforeach()
foreach(kind IN ITEMS public all)
  set(checked ${public})
  if(kind STREQUAL "all")
    set(checked ${headers})
  endif()
  add_test(NAME "headers/${kind}"
    COMMAND "${BASH}" "${CMAKE_CURRENT_SOURCE_DIR}/headers/check.sh"
            ${CMAKE_CXX_COMPILER_LAUNCHER} "${CMAKE_CXX_COMPILER}"
            -std=c++20 -O0 -Wall -Wextra -Wpedantic -Wshadow -Werror
            "-I${PROJECT_SOURCE_DIR}/libgd" "-I${PROJECT_SOURCE_DIR}/testing"
            "-I${PROJECT_SOURCE_DIR}/actors" "-I${PROJECT_SOURCE_DIR}/network"
            "-I${PROJECT_SOURCE_DIR}/testing/actors" "-I${PROJECT_SOURCE_DIR}/metrics"
            ${dirs} -- ${checked})
  set_tests_properties("headers/${kind}" PROPERTIES PROCESSORS 2)
endforeach()
set_tests_properties(headers/all PROPERTIES LABELS long)

# -- exports -------------------------------------------------------------------

# The libraries as shared ones, if need be linked from the static ones' objects.
set(parts core testing actors network)
if(GD_BUILD_METRICS)
  list(APPEND parts metrics)
endif()
if(TARGET gen_durable_actors_testing)
  list(APPEND parts actors_testing)
endif()
foreach(part IN LISTS parts)
  set(shared gen_durable_${part})
  if(NOT BUILD_SHARED_LIBS)
    set(shared gd_shared_${part})
    file(CONFIGURE OUTPUT empty.cpp CONTENT "")
    add_library(${shared} SHARED "${CMAKE_CURRENT_BINARY_DIR}/empty.cpp")
    target_link_libraries(${shared} PRIVATE
      "$<LINK_LIBRARY:WHOLE_ARCHIVE,gen_durable_${part}>")
    gd_export_only_gd(${shared})
  endif()
  set(expected_core _ZTIN2gd18undecodable_signalE _ZTVN2gd18undecodable_signalE)
  set(expected_testing _ZTVN2gd7testing10simulationE _ZTVN2gd7testing11in_databaseE)
  set(expected_actors _ZN2gd6actors6add_toERN3caf19actor_system_configE)
  set(expected_network _ZN2gd6actors14add_network_toERN3caf19actor_system_configE)
  set(expected_metrics _ZN2gd7metrics8databaseENS0_16database_optionsE)
  set(expected_actors_testing _ZTVN2gd6actors7testing10simulationE)
  add_test(NAME "exports/${part}"
    COMMAND "${CMAKE_COMMAND}" "-DNM=${CMAKE_NM}"
            "-DLIBRARY=$<TARGET_FILE:${shared}>" "-DEXPECTED=${expected_${part}}"
            -P "${CMAKE_CURRENT_SOURCE_DIR}/exports/check.cmake")
  if(part STREQUAL "core")
    add_executable(gd_crossing exports/crossing.cpp)
    target_include_directories(gd_crossing PRIVATE "${PROJECT_SOURCE_DIR}/libgd")
    target_compile_options(gd_crossing PRIVATE -O0)
    target_link_libraries(gd_crossing PRIVATE ${shared} gd_warnings)
    add_test(NAME exports/crossing COMMAND gd_crossing)
  endif()
endforeach()

# -- packages ------------------------------------------------------------------

if(NOT GD_INSTALL)
  return()
endif()

set(prefix "${PROJECT_BINARY_DIR}/prefix")
add_test(NAME package/install
  COMMAND "${BASH}" -c "rm -rf -- \"$2\" && exec \"$0\" --install \"$1\" --prefix \"$2\""
          "${CMAKE_COMMAND}" "${PROJECT_BINARY_DIR}" "${prefix}")
set_tests_properties(package/install PROPERTIES FIXTURES_SETUP prefix)
set(unit "${prefix}/lib/systemd/system/gen-durable-worker@.service")
add_test(NAME package/unit
  COMMAND "${BASH}" -c "grep -qx \"Environment=PATH=$0/$1:/usr/local/bin:/usr/bin:/bin\" \"$2\" && ! grep @GD_ \"$2\""
          "${prefix}" "${CMAKE_INSTALL_BINDIR}" "${unit}")
set_tests_properties(package/unit PROPERTIES FIXTURES_REQUIRED prefix)
foreach(script IN ITEMS functions insert)
  add_test(NAME "package/grants_${script}"
    COMMAND "${CMAKE_COMMAND}" -E compare_files
            "${PROJECT_SOURCE_DIR}/sql/grants/${script}.sql"
            "${prefix}/${CMAKE_INSTALL_DATADIR}/gen_durable/grants/${script}.sql")
  set_tests_properties("package/grants_${script}" PROPERTIES FIXTURES_REQUIRED prefix)
endforeach()
foreach(way IN ITEMS find_package pkg_config add_subdirectory)
  add_test(NAME "package/${way}"
    COMMAND "${CMAKE_COMMAND}" "-DWAY=${way}" "-DSOURCE=${PROJECT_SOURCE_DIR}"
            "-DPREFIX=${prefix}" "-DLIBDIR=${CMAKE_INSTALL_LIBDIR}"
            "-DDIR=${CMAKE_CURRENT_BINARY_DIR}/consumer/${way}"
            "-DCOMPONENTS=${GD_COMPONENTS}" "-DCXX=${CMAKE_CXX_COMPILER}"
            "-DLAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER}"
            "-DSEARCH=${CMAKE_PREFIX_PATH}"
            -P "${CMAKE_CURRENT_SOURCE_DIR}/consumer/check.cmake")
  set_tests_properties("package/${way}" PROPERTIES FIXTURES_REQUIRED prefix)
endforeach()
set_tests_properties(package/add_subdirectory PROPERTIES LABELS long)

# -- the tutorial --------------------------------------------------------------

if(TARGET gdctl AND "actors" IN_LIST GD_COMPONENTS)
  add_test(NAME tutorial
    COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/readme.sh" "${PROJECT_BINARY_DIR}" "${prefix}")
  set_tests_properties(tutorial PROPERTIES
    FIXTURES_REQUIRED prefix TIMEOUT 700
    ENVIRONMENT "CMAKE_CXX_COMPILER_LAUNCHER=$<$<BOOL:${CCACHE}>:${CCACHE}>;LD_LIBRARY_PATH=${prefix}/${CMAKE_INSTALL_LIBDIR}:$ENV{LD_LIBRARY_PATH}")
endif()
