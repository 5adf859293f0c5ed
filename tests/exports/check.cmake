# cmake -DNM=<nm> -DLIBRARY=<file> "-DEXPECTED=<list>" -P check.cmake
#
# A shared library exports names of namespace gd and no other: neither those of
# what it uses (fmt, simdjson) nor instances of std's templates, which would
# take the place of a program's own. EXPECTED are some that it has to export.

cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND "${NM}" -D --defined-only -f posix "${LIBRARY}"
  COMMAND_ERROR_IS_FATAL ANY OUTPUT_VARIABLE symbols)
string(REGEX REPLACE " [^\n]*\n" ";" symbols "${symbols}")
foreach(symbol IN LISTS symbols)
  if(symbol AND NOT symbol MATCHES "^_Z(T[VTIS]|GV|T[hvc][^_]*_(n?[0-9]+_)?)?N[KRO]*2gd")
    message(SEND_ERROR "${LIBRARY} exports ${symbol}")
  endif()
endforeach()
foreach(name IN LISTS EXPECTED)
  if(NOT name IN_LIST symbols)
    message(SEND_ERROR "${LIBRARY} does not export ${name}")
  endif()
endforeach()
