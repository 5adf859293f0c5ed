# cmake -DREADELF=<readelf> -DPROGRAM=<file> -P hardening.cmake
#
# A program must be position independent, have its relocations done and made
# read-only before it begins, and check its stack frames.

execute_process(
  COMMAND "${CMAKE_COMMAND}" -E env LC_ALL=C
          "${READELF}" --wide --file-header --program-headers --dynamic --dyn-syms "${PROGRAM}"
  OUTPUT_VARIABLE output
  COMMAND_ERROR_IS_FATAL ANY)
foreach(expected IN ITEMS
    "Type: +DYN" "GNU_RELRO" "BIND_NOW|FLAGS_1[^\n]*NOW" "__stack_chk_fail")
  if(NOT output MATCHES "${expected}")
    message(FATAL_ERROR "${PROGRAM}: expected ${expected} in what readelf tells")
  endif()
endforeach()
