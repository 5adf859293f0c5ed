# cmake -DCXX=<compiler> -DFLAGS=<list> -DSOURCE=<file> -P check.cmake
#
# A source whose name ends in _ok must compile. Every other one must fail, with
# messages that contain what its first lines say: "// expect: <text>".

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

if(NOT failed)
  message(FATAL_ERROR "${name} compiles, but should not")
endif()
file(READ "${SOURCE}" rest)
if(NOT rest MATCHES "^// expect: ")
  message(FATAL_ERROR "${name} does not begin with '// expect: <text>'")
endif()
while(rest MATCHES "^// expect: ([^\n]+)\n(.*)$")
  set(expected "${CMAKE_MATCH_1}")
  set(rest "${CMAKE_MATCH_2}")
  string(FIND "${output}" "${expected}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "${name} fails without '${expected}':\n${output}")
  endif()
endwhile()
