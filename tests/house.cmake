# The rules of the house. Dependencies point one way, sql -> libgd -> actors ->
# examples and tools:
# 1. libgd includes no CAF header.
# 2. libpq's header is included in libgd/gd/pq/ only, in .cpp files.
# 3. SQL lives in sql/*/*.sql, none of it in C++ strings.
# 4. Headers that users include, include none of gd/work/ and gd/pq/; those of
#    gd/pq/ include none of gd/work/.
# 5. The test kit is for tests: neither libraries nor tools include it.
# 6. Comments speak for themselves: not everybody has the specification.
# 7. No C++ file has more than 600 lines and no function more
#    than 70.
# 8. sql/README.md has each statement, and each function of SQL, in the table of
#    its folder, and no other.
# 9. No folder has more lines than its budget, which stands below.
#
# Run as cmake -P tests/house.cmake [-DROOT=<tree>].

cmake_minimum_required(VERSION 3.25)

if(NOT ROOT)
  cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH ROOT)
endif()

# What starts a string literal (raw ones too) that is a statement. begin, commit
# and rollback are statements in lower case only: COMMIT is a tag of libpq's.
string(CONCAT statement
  "\"([a-z_]*\\()?[ \t\n]*("
  "select[ \t\n]|insert[ \t]+into[ \t\n]|update[ \t]+[^\n\" \t]+[ \t\n]+(as |set )"
  "|delete[ \t]+from[ \t\n]|with[ \t]+(recursive[ \t]+)?[a-z_]+[ \t]+as[ \t\n(]"
  "|(create|alter|drop)[ \t]+(or |unique |temp|table|index|schema|type|function|view|database|role)"
  "|truncate[ \t]|listen[ \t]|lock[ \t]+table)")
set(transaction "\"([a-z_]*\\()?[ \t\n]*(begin|commit|rollback)([ \t\n;]|\\)[a-z_]*\"|\")")

set(broken 0)
macro(broken rule)
  string(STRIP "${CMAKE_MATCH_0}" found)
  message("${file}: ${rule}: ${found}")
  math(EXPR broken "${broken} + 1")
endmacro()

# What users include.
set(public "^(libgd/gd/[a-z_]+|testing/gd/[a-z_]+|metrics/gd/[a-z_]+|testing/actors/gd/actors/testing|actors/gd/actors/(async|compat|engine|join|messages|remote|remote_gateway))\\.hpp$")

set(include "\n[ \t]*#[ \t]*include[ \t]*[<\"]")
file(GLOB_RECURSE files RELATIVE "${ROOT}"
  "${ROOT}/libgd/*.[ch]pp" "${ROOT}/testing/*.[ch]pp" "${ROOT}/actors/*.[ch]pp"
  "${ROOT}/metrics/*.[ch]pp" "${ROOT}/tools/*.[ch]pp")
foreach(file IN LISTS files)
  file(READ "${ROOT}/${file}" text)
  set(text "\n${text}")
  if(file MATCHES "^libgd/" AND text MATCHES "${include}caf/[^\n]*")
    broken("libgd includes no CAF header")
  endif()
  if(NOT file MATCHES "^libgd/gd/pq/[a-z_]+\\.cpp$"
     AND text MATCHES "${include}[^\n]*libpq[^\n]*")
    broken("libpq's header is included in libgd/gd/pq/ only, in .cpp files")
  endif()
  if(file MATCHES "${public}" AND text MATCHES "${include}gd/(work|pq)/[^\n]*")
    broken("users include none of gd/work/ and gd/pq/")
  endif()
  if(text MATCHES "//[^\n]*(spec section|[[][A-Z][0-9]+[]])[^\n]*")
    broken("comments do not refer to the specification")
  endif()
  if(file MATCHES "^libgd/gd/pq/.*\\.hpp$" AND text MATCHES "${include}gd/work/[^\n]*")
    broken("headers of gd/pq/ include none of gd/work/")
  endif()
  if(NOT file MATCHES "^testing/" AND text MATCHES "${include}gd/testing[^\n]*")
    broken("the test kit is for tests")
  endif()
  string(REGEX REPLACE "\n[ \t]*//[^\n]*" "\n" text "${text}")
  if(text MATCHES "${transaction}")
    broken("SQL belongs into sql/*/*.sql")
  endif()
  string(TOLOWER "${text}" text)
  if(text MATCHES "${statement}")
    broken("SQL belongs into sql/*/*.sql")
  endif()
endforeach()

# -- lengths -------------------------------------------------------------------

find_program(AWK awk REQUIRED)
execute_process(
  COMMAND "${AWK}" -v file_lines=600 -v function_lines=70
    -f "${CMAKE_CURRENT_LIST_DIR}/lengths.awk" ${files}
  WORKING_DIRECTORY "${ROOT}" OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" lines "${lines}")
foreach(line IN LISTS lines)
  message("${line}")
  math(EXPR broken "${broken} + 1")
endforeach()

# A folder has that many lines at the most. Whoever needs more makes room, or
# says in the commit that raises it what the lines are worth.
set(budgets
  libgd/gd 8400 libgd/gd/pq 5700 libgd/gd/work 9450 actors/gd/actors 12380
  testing/gd 1730 testing/actors/gd/actors 400 metrics/gd 800 tools/gdctl 6600 tools/gdctl/serve 3010
  sql/turn 700 sql/intake 870 sql/sweep 660 sql/session 250 sql/caller 30
  sql/testing 30 sql/parts 890)
while(budgets)
  list(POP_FRONT budgets folder budget)
  file(GLOB sources "${ROOT}/${folder}/*.[ch]pp" "${ROOT}/${folder}/*.sql")
  set(count 0)
  foreach(source IN LISTS sources)
    file(READ "${source}" text)
    string(REGEX REPLACE "[^\n]" "" text "${text}")
    string(LENGTH "${text}" lines)
    math(EXPR count "${count} + ${lines}")
  endforeach()
  if(count EQUAL 0 OR count GREATER budget)
    message("${folder}: has ${count} lines, expected 1 to ${budget}: make room, or "
      "raise its budget in tests/house.cmake and say in the commit what the lines are worth")
    math(EXPR broken "${broken} + 1")
  endif()
endwhile()

# -- sql/README.md -------------------------------------------------------------

file(READ "${ROOT}/sql/README.md" readme)
string(REGEX REPLACE "[][;]" "" readme "${readme}")

# The names in the first columns of a section's tables.
function(told_in heading result)
  string(FIND "${readme}" "\n${heading}\n" begin)
  if(begin EQUAL -1)
    message(FATAL_ERROR "sql/README.md has no section \"${heading}\"")
  endif()
  string(SUBSTRING "${readme}" ${begin} -1 section)
  string(REGEX REPLACE "^(\n#+ [^\n]*)" "" section "${section}")
  string(REGEX REPLACE "\n##+ .*$" "" section "${section}")
  string(REGEX MATCHALL "\n\\| `[^|]*" rows "${section}")
  string(REGEX MATCHALL "`[a-z_]+`" names "${rows}")
  string(REPLACE "`" "" names "${names}")
  set(${result} "${names}" PARENT_SCOPE)
endfunction()

macro(check_told heading there)
  told_in("${heading}" told)
  set(lacking ${there})
  list(REMOVE_ITEM lacking ${told})
  list(REMOVE_ITEM told ${there})
  foreach(name IN LISTS lacking)
    message("sql/README.md: ${name} is not under \"${heading}\"")
    math(EXPR broken "${broken} + 1")
  endforeach()
  foreach(name IN LISTS told)
    message("sql/README.md: ${name} is under \"${heading}\", and not there")
    math(EXPR broken "${broken} + 1")
  endforeach()
endmacro()

foreach(heading IN ITEMS Turn Intake Sweep Session Caller Schema Grants Testing)
  string(TOLOWER "${heading}" folder)
  file(GLOB statements "${ROOT}/sql/${folder}/*.sql")
  list(TRANSFORM statements REPLACE "^.*/([^/]*)\\.sql$" "\\1")
  # Migrations have a row together, as what they include.
  list(FILTER statements EXCLUDE REGEX "^([0-9]|tables$)")
  check_told("## ${heading}" "${statements}")
endforeach()

file(GLOB made "${ROOT}/sql/schema/[0-9]*.up.sql" "${ROOT}/sql/schema/tables.sql" "${ROOT}/sql/schema/functions/*.sql")
set(functions "")
foreach(file IN LISTS made)
  file(READ "${file}" text)
  string(REGEX MATCHALL "create (or replace )?function :\"schema\"\\.[a-z_]+" found "${text}")
  list(TRANSFORM found REPLACE "^.*\\." "")
  list(APPEND functions ${found})
endforeach()
list(REMOVE_DUPLICATES functions)
check_told("### Functions" "${functions}")

if(broken)
  message(FATAL_ERROR "the rules of the house are broken ${broken} times")
endif()
