# Builds gdctl and the worker of examples/checkout as they were at COMMIT, in
# OUT/COMMIT/build, once.

cmake_minimum_required(VERSION 3.25)

set(here "${OUT}/${COMMIT}")
if(EXISTS "${here}/built")
  return()
endif()

# Whoever owns the repository: nothing of it is run.
set(git git -c safe.directory=* -C "${ROOT}")
execute_process(COMMAND ${git} cat-file -e "${COMMIT}^{commit}"
  RESULT_VARIABLE lacking OUTPUT_QUIET ERROR_QUIET)
if(lacking)
  message(WARNING "the commit ${COMMIT} is not in this repository: the test \"previous\" will not run")
  return()
endif()

file(REMOVE_RECURSE "${here}") # it was cut off
file(MAKE_DIRECTORY "${OUT}")
execute_process(
  COMMAND ${git} archive --output "${OUT}/source.tar" "${COMMIT}"
  COMMAND_ERROR_IS_FATAL ANY)
file(ARCHIVE_EXTRACT INPUT "${OUT}/source.tar" DESTINATION "${here}/source")
file(REMOVE "${OUT}/source.tar")

# Not optimized, and without what only debuggers want: it is there to be correct.
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${here}/source" -B "${here}/build" -G "${GENERATOR}"
    "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_PREFIX_PATH=${PREFIX}"
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0
    -DGD_WERROR=OFF -DGD_BUILD_TESTS=OFF -DGD_BUILD_BENCH=OFF -DGD_INSTALL=OFF
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
# One job: it runs beside those of the build that it is part of.
execute_process(
  COMMAND "${CMAKE_COMMAND}" --build "${here}/build" --parallel 1
    --target gdctl checkout_worker
  COMMAND_ERROR_IS_FATAL ANY)
file(TOUCH "${here}/built")
