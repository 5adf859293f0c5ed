# The rules of the house. Dependencies point one way, sql -> libgd -> actors -> network
# -> examples and tools:
# 1. A folder is a room, and includes no others than stand beside it below. What users
#    include, includes nothing else.
# 2. libgd includes no CAF header, and only network CAF's of the network.
# 3. libpq's header is included in libgd/gd/pq/ only, in .cpp files.
# 4. SQL lives in sql/*/*.sql, none of it in C++ strings.
# 5. The test kit is for tests: neither libraries nor tools include it.
# 6. Comments speak for themselves: not everybody has the specification.
# 7. No function has more than 70 lines.
# 8. What a gateway is asked stands in actors/gd/actors/requests.hpp, and beside that, of
#    those between it and whoever asks, where it is handled, and nowhere else.
# 9. sql/README.md has each statement, and each function of SQL, in the table of
#    its folder, and no other.
# 10. Markdown is wrapped at 100 columns, but for tables, headings, code and links.
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

# <room> <those that it includes beside what users include>.
set(rooms
  "libgd/gd/pq|"
  "libgd/gd/store|libgd/gd/pq"
  "libgd/gd/engine/step|libgd/gd/pq libgd/gd/store"
  "libgd/gd/engine/queue|libgd/gd/pq libgd/gd/store libgd/gd/engine/step"
  "libgd/gd/engine/intake|libgd/gd/pq libgd/gd/store libgd/gd/engine/queue"
  "libgd/gd/engine/sweep|libgd/gd/pq libgd/gd/store libgd/gd/engine/step libgd/gd/engine/intake"
  "libgd/gd/client|libgd/gd/pq libgd/gd/store libgd/gd/engine/intake"
  "libgd/gd|libgd/gd/pq libgd/gd/store libgd/gd/engine/queue libgd/gd/engine/intake"
  "actors/gd/actors/node|libgd/gd/pq libgd/gd/store libgd/gd/engine/queue libgd/gd/engine/step libgd/gd/engine/intake"
  "actors/gd/actors/queue|libgd/gd/pq libgd/gd/store libgd/gd/engine/queue libgd/gd/engine/step actors/gd/actors/node"
  "actors/gd/actors/gateway|libgd/gd/pq libgd/gd/store libgd/gd/engine/intake actors/gd/actors/node"
  "actors/gd/actors/sweep|libgd/gd/pq libgd/gd/store libgd/gd/engine/sweep actors/gd/actors/node actors/gd/actors/queue"
  "actors/gd/actors/engine|libgd/gd/pq libgd/gd/store actors/gd/actors/node actors/gd/actors/queue actors/gd/actors/gateway actors/gd/actors/sweep"
  "actors/gd/actors|"
  "network/gd/network/wire|libgd/gd/pq"
  "network/gd/network/client|libgd/gd/pq actors/gd/actors/node network/gd/network/wire"
  "network/gd/network/server|libgd/gd/pq libgd/gd/store actors/gd/actors/node network/gd/network/client network/gd/network/wire"
  "network/gd/network/workers|libgd/gd/pq libgd/gd/store libgd/gd/engine/queue actors/gd/actors/node actors/gd/actors/queue"
  "network/gd/actors|actors/gd/actors/node network/gd/network/wire network/gd/network/server network/gd/network/client network/gd/network/workers")
# The reactor asks each new connection for the schema's version.
set(exceptions "libgd/gd/pq/reactor.cpp|libgd/gd/store")
set(for_users libgd/gd actors/gd/actors network/gd/actors)

set(include "\n[ \t]*#[ \t]*include[ \t]*[<\"]")
file(GLOB_RECURSE files RELATIVE "${ROOT}"
  "${ROOT}/libgd/*.[ch]pp" "${ROOT}/testing/*.[ch]pp" "${ROOT}/actors/*.[ch]pp"
  "${ROOT}/network/*.[ch]pp" "${ROOT}/metrics/*.[ch]pp" "${ROOT}/tools/*.[ch]pp")
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
  if(NOT file MATCHES "^network/" AND text MATCHES "${include}caf/io/[^\n]*")
    broken("only network includes CAF's network")
  endif()
  cmake_path(GET file PARENT_PATH room)
  if(file MATCHES "^(libgd|actors|network)/")
    set(may "")
    set(known 0)
    foreach(line IN LISTS rooms)
      if(line MATCHES "^${room}\\|(.*)$")
        set(known 1)
        string(REPLACE " " ";" may "${CMAKE_MATCH_1}")
      endif()
    endforeach()
    if(NOT known)
      set(CMAKE_MATCH_0 "${room}")
      broken("is in a folder that is no room of the house")
    endif()
    if(room IN_LIST for_users AND file MATCHES "\\.hpp$")
      set(may "")
    endif()
    foreach(line IN LISTS exceptions)
      if(line MATCHES "^${file}\\|(.*)$")
        list(APPEND may "${CMAKE_MATCH_1}")
      endif()
    endforeach()
    list(APPEND may ${room} libgd/gd)
    if(NOT file MATCHES "^libgd/")
      list(APPEND may actors/gd/actors)
    endif()
    if(file MATCHES "^network/")
      list(APPEND may network/gd/actors)
    endif()
    string(REGEX MATCHALL "#include <gd/[^>]+>" lines "${text}")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "#include <(.*)>" "\\1" header "${line}")
      foreach(root IN ITEMS libgd actors network)
        if(EXISTS "${ROOT}/${root}/${header}")
          cmake_path(GET header PARENT_PATH other)
          if(NOT "${root}/${other}" IN_LIST may)
            set(CMAKE_MATCH_0 "${line}")
            broken("${room} may not include ${root}/${other}")
          endif()
        endif()
      endforeach()
    endforeach()
  endif()
  if(text MATCHES "//[^\n]*(spec section|[[][A-Z][0-9]+[]])[^\n]*")
    broken("comments do not refer to the specification")
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
  COMMAND "${AWK}" -v function_lines=70
    -f "${CMAKE_CURRENT_LIST_DIR}/lengths.awk" ${files}
  WORKING_DIRECTORY "${ROOT}" OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" lines "${lines}")
foreach(line IN LISTS lines)
  message("${line}")
  math(EXPR broken "${broken} + 1")
endforeach()

# -- requests ------------------------------------------------------------------

file(READ "${ROOT}/actors/gd/actors/requests.hpp" text)
string(REGEX MATCHALL "\n  (acts|reads)[(][a-z_]+, [a-z_]+[)]" lines "${text}")
if(NOT lines)
  message(FATAL_ERROR "actors/gd/actors/requests.hpp lists no requests")
endif()
# Whether what acts may be sent again, a gateway's client decides; it asks the empty
# insert_all whether a gateway is there.
set(told_apart "insert|insert_all|signal|transition")
foreach(line IN LISTS lines)
  string(REGEX REPLACE ".*[(]([a-z_]+),.*" "\\1" asked "${line}")
  if(asked MATCHES "^(${told_apart})$")
    continue()
  endif()
  foreach(file IN LISTS files)
    if(file MATCHES "^(actors|network)/" AND NOT file MATCHES "/(requests[.]hpp|gateway[.]cpp)$")
      file(READ "${ROOT}/${file}" text)
      if(text MATCHES "[ (<]gd::${asked}[^a-z_][^\n]*")
        broken("only the list of requests and the gateway know one")
      endif()
    endif()
  endforeach()
endforeach()

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
  set(variants "")
  foreach(file IN LISTS statements)
    file(STRINGS "${file}" lines REGEX "^-- variant ")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^-- variant ([a-z_]+):.*$" "\\1" name "${line}")
      list(APPEND variants "${name}")
    endforeach()
  endforeach()
  list(APPEND statements ${variants})
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

# -- width of Markdown ---------------------------------------------------------

# Files, and folders with all that is in them.
set(wrapped README.md CONTRIBUTING.md docs sql/README.md)
set(pages "")
foreach(name IN LISTS wrapped)
  if(IS_DIRECTORY "${ROOT}/${name}")
    file(GLOB_RECURSE found RELATIVE "${ROOT}" "${ROOT}/${name}/*.md")
    list(APPEND pages ${found})
  elseif(EXISTS "${ROOT}/${name}")
    list(APPEND pages "${name}")
  endif()
endforeach()
if(pages)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env LC_ALL=C "${AWK}" -v columns=100 -f "${CMAKE_CURRENT_LIST_DIR}/columns.awk" ${pages}
    WORKING_DIRECTORY "${ROOT}" OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" lines "${lines}")
  foreach(line IN LISTS lines)
    message("${line}")
    math(EXPR broken "${broken} + 1")
  endforeach()
endif()

if(broken)
  message(FATAL_ERROR "the rules of the house are broken ${broken} times")
endif()
