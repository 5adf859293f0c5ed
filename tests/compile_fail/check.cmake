# cmake -DCXX=<compiler> -DFLAGS=<list> -DSOURCE=<file> -P check.cmake
#
# A source whose name ends in _ok must compile. Every other one must fail, with
# a message that contains what its first line says: "// expect: <text>".

separate_arguments(FLAGS)
execute_process(
  COMMAND "${CMAKE_COMMAND}" -E env LC_ALL=C
          "${CXX}" ${FLAGS} -fsyntax-only "${SOURCE}"
  RESULT_VARIABLE failed
  OUTPUT_VARIABLE output
  ERROR_VARIABLE output)

get_filename_component(name "${SOURCE}" NAME_WE)
if(name MATCHES "_ok$")
  if(failed)
    message(FATAL_ERROR "${name} does not compile:\n${output}")
  endif()
  return()
endif()

file(STRINGS "${SOURCE}" expected LIMIT_COUNT 1)
if(NOT expected MATCHES "^// expect: (.+)$")
  message(FATAL_ERROR "${name} does not begin with '// expect: <text>'")
endif()
set(expected "${CMAKE_MATCH_1}")
if(NOT failed)
  message(FATAL_ERROR "${name} compiles, but should not")
endif()
string(FIND "${output}" "${expected}" found)
if(found EQUAL -1)
  message(FATAL_ERROR "${name} fails without '${expected}':\n${output}")
endif()
