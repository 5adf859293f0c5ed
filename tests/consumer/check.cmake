# cmake -DWAY=<way> -DSOURCE=<tree> -DPREFIX=<installation> -DDIR=<scratch>
#       -DCOMPONENTS=<list> -DCXX=<compiler> [-DLAUNCHER=<list>]
#       [-DSEARCH=<list>] -P check.cmake
#
# Builds and runs the programs of this directory as a project elsewhere would:
# the ways are find_package, pkg_config and add_subdirectory. SEARCH is where the
# dependencies are. Also checks that the core asks nobody for CAF.

cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE "${DIR}")

# Where the programs find shared libraries.
list(TRANSFORM SEARCH REPLACE "(.+)" "\\1/lib" OUTPUT_VARIABLE dirs)
list(JOIN dirs ":" dirs)
set(ENV{LD_LIBRARY_PATH} "${PREFIX}/${LIBDIR}:${dirs}:$ENV{LD_LIBRARY_PATH}")

# run(<command>...): must succeed; sets `output`.
macro(run)
  execute_process(COMMAND ${ARGN}
    RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(failed)
    string(REPLACE ";" " " command "${ARGN}")
    message(FATAL_ERROR "${command}\n${output}${errors}")
  endif()
endmacro()

# must_print(<program> <regex>)
function(must_print program pattern)
  run("${program}")
  if(NOT output MATCHES "${pattern}")
    message(FATAL_ERROR "${program} does not print ${pattern}, but:\n${output}")
  endif()
endfunction()

set(core_prints "^Order v1: gd::invalid_argument: ")
set(testing_prints "^done\n$")
set(actors_prints "^stopped\n$")
set(network_prints "^gd::unavailable: ")
set(metrics_prints "gen_durable_node_running 1\n")
set(actors_testing_prints "^done: {\"id\": 8}\n$")

set(no_caf -DCMAKE_DISABLE_FIND_PACKAGE_CAF=ON)

# configure(<name> <components> <argument>...)
set(consumer "${CMAKE_CURRENT_LIST_DIR}")
string(REPLACE ";" "\\;" launcher "${LAUNCHER}")
string(REPLACE ";" "\\;" search "${PREFIX};${SEARCH}")
macro(configure name components)
  string(REPLACE ";" "\\;" escaped "${components}")
  run("${CMAKE_COMMAND}" -S "${consumer}" -B "${DIR}/${name}" -G Ninja
      "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${launcher}"
      "-DCMAKE_PREFIX_PATH=${search}" "-DGD_COMPONENTS=${escaped}" ${ARGN})
endmacro()

if(WAY STREQUAL "find_package")
  configure(core core ${no_caf})
  run("${CMAKE_COMMAND}" --build "${DIR}/core")
  must_print("${DIR}/core/core" "${core_prints}")
  configure(all "${COMPONENTS}")
  list(REMOVE_ITEM COMPONENTS core)
  foreach(part IN LISTS COMPONENTS)
    run("${CMAKE_COMMAND}" --build "${DIR}/all" --target ${part})
    must_print("${DIR}/all/${part}" "${${part}_prints}")
  endforeach()

  # What was installed is complete, and can be moved.
  file(GLOB_RECURSE headers "${PREFIX}/include/*.hpp")
  foreach(header IN LISTS headers)
    file(STRINGS "${header}" lines REGEX "^#include <gd/[^>]+>")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include <([^>]+)>.*" "\\1" included "${line}")
      if(NOT EXISTS "${PREFIX}/include/${included}")
        message(SEND_ERROR "${header} includes ${included}, which is not installed")
      endif()
    endforeach()
  endforeach()
  file(GLOB_RECURSE files "${PREFIX}/*.cmake" "${PREFIX}/*.pc")
  if(NOT headers OR NOT files)
    message(SEND_ERROR "there are no headers or no package files in ${PREFIX}")
  endif()
  foreach(file IN LISTS files)
    file(READ "${file}" text)
    foreach(path IN ITEMS "${SOURCE}" "${PREFIX}")
      string(FIND "${text}" "${path}" found)
      if(NOT found EQUAL -1)
        message(SEND_ERROR "${file} names ${path}")
      endif()
    endforeach()
  endforeach()

elseif(WAY STREQUAL "pkg_config")
  set(ENV{PKG_CONFIG_PATH} "${PREFIX}/${LIBDIR}/pkgconfig:$ENV{PKG_CONFIG_PATH}")
  foreach(part IN LISTS COMPONENTS)
    file(MAKE_DIRECTORY "${DIR}")
    run(pkg-config --cflags "gen_durable_${part}")
    separate_arguments(cflags UNIX_COMMAND "${output}")
    run(pkg-config --libs "gen_durable_${part}")
    separate_arguments(libs UNIX_COMMAND "${output}")
    run(${LAUNCHER} "${CXX}" -std=c++20 ${cflags} -c "${consumer}/${part}.cpp"
        -o "${DIR}/${part}.o")
    run("${CXX}" "${DIR}/${part}.o" -o "${DIR}/${part}" ${libs})
    must_print("${DIR}/${part}" "${${part}_prints}")
  endforeach()

elseif(WAY STREQUAL "add_subdirectory")
  # Not optimized, and several sources at once: it compiles the library once more.
  configure(core core "-DGD_SOURCE=${SOURCE}" -DGD_BUILD_ACTORS=OFF
            -DCMAKE_UNITY_BUILD=ON ${no_caf})
  run("${CMAKE_COMMAND}" --build "${DIR}/core")
  must_print("${DIR}/core/core" "${core_prints}")
  configure(all "${COMPONENTS}" "-DGD_SOURCE=${SOURCE}")

  # Actors without CAF: the error says what to do.
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${consumer}" -B "${DIR}/none" -G Ninja
            "-DCMAKE_CXX_COMPILER=${CXX}" "-DGD_SOURCE=${SOURCE}" ${no_caf}
    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE errors)
  if(NOT failed OR NOT errors MATCHES "-DGD_BUILD_ACTORS=OFF")
    message(FATAL_ERROR "configured without CAF, it says: ${errors}")
  endif()

else()
  message(FATAL_ERROR "there is no way '${WAY}'")
endif()
