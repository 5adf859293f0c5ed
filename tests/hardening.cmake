# cmake -DREADELF=<readelf> -DFILE=<file> -DFORTIFIED=<bool> -P hardening.cmake
#
# A program or a shared library must be position independent, have its relocations
# done and made read-only before it begins, and check its stack frames; and, where
# the build says so, the bounds of what it copies.

execute_process(
  COMMAND "${CMAKE_COMMAND}" -E env LC_ALL=C
          "${READELF}" --wide --file-header --program-headers --dynamic --dyn-syms "${FILE}"
  OUTPUT_VARIABLE output
  COMMAND_ERROR_IS_FATAL ANY)
set(all "Type: +DYN" "GNU_RELRO" "BIND_NOW|FLAGS_1[^\n]*NOW" "__stack_chk_fail")
if(FORTIFIED)
  list(APPEND all "__[a-z]+_chk@")
endif()
foreach(expected IN LISTS all)
  if(NOT output MATCHES "${expected}")
    message(FATAL_ERROR "${FILE}: expected ${expected} in what readelf tells")
  endif()
endforeach()
