# The rules of the house. Dependencies point one way, sql -> libgd -> actors ->
# examples and tools:
# 1. libgd includes no CAF header.
# 2. libpq's header is included in libgd/gd/pq/ only, in .cpp files.
# 3. SQL lives in sql/*/*.sql, none of it in C++ strings.
# 4. Headers that users include, include none of gd/work/ and gd/pq/; those of
#    gd/pq/ include none of gd/work/.
# 5. The test kit is for tests: neither libraries nor tools include it.
# 6. Headers that users include speak for themselves: users do not have the
#    specification.
#
# Run as cmake -P tests/house.cmake [-DROOT=<tree>].

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
set(public "^(libgd/gd/[a-z_]+|testing/gd/[a-z_]+|actors/gd/actors/(async|compat|engine|messages|remote))\\.hpp$")

set(include "\n[ \t]*#[ \t]*include[ \t]*[<\"]")
file(GLOB_RECURSE files RELATIVE "${ROOT}"
  "${ROOT}/libgd/*.[ch]pp" "${ROOT}/testing/*.[ch]pp" "${ROOT}/actors/*.[ch]pp"
  "${ROOT}/tools/*.[ch]pp")
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
  if(file MATCHES "${public}" AND text MATCHES "//[^\n]*(spec section|[[][A-Z][0-9]+[]])[^\n]*")
    broken("headers for users do not refer to the specification")
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

if(broken)
  message(FATAL_ERROR "the rules of the house are broken ${broken} times")
endif()
