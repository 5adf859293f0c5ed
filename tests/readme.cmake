# Documentation that cannot go stale: every C++ block of README.md and of the documents
# stands, but for its indentation, in a file that is compiled; what is marked [shown] there
# is in README.md or in docs/guide/machines.md; and links lead to files and to their
# headings. The tutorial's blocks are compiled as it is typed: see readme.sh.
#
# Run as cmake -P tests/readme.cmake [-DROOT=<tree>].

cmake_minimum_required(VERSION 3.25)

if(NOT ROOT)
  cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH ROOT)
endif()

set(broken 0)
macro(broken text)
  message("${text}")
  math(EXPR broken "${broken} + 1")
endmacro()

# A file without indentation.
function(read_flat file result)
  file(READ "${ROOT}/${file}" text)
  string(REGEX REPLACE "\n[ \t]+" "\n" text "\n${text}")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

set(compiled "")
file(GLOB_RECURSE files RELATIVE "${ROOT}"
  "${ROOT}/examples/*.[ch]pp" "${ROOT}/libgd/*.[ch]pp" "${ROOT}/testing/*.[ch]pp"
  "${ROOT}/actors/*.[ch]pp")
foreach(file IN LISTS files)
  read_flat("${file}" text)
  string(APPEND compiled "${text}")
endforeach()

# -- blocks are compiled -------------------------------------------------------

set(blocks 0)
file(GLOB_RECURSE documents RELATIVE "${ROOT}" "${ROOT}/docs/*.md")
list(PREPEND documents README.md)
list(REMOVE_ITEM documents docs/tutorial.md)
foreach(file IN LISTS documents)
  read_flat("${file}" rest)
  while(TRUE)
    string(FIND "${rest}" "\n```cpp\n" begin)
    if(begin EQUAL -1)
      break()
    endif()
    math(EXPR begin "${begin} + 7")
    string(SUBSTRING "${rest}" ${begin} -1 rest)
    string(FIND "${rest}" "\n```\n" end)
    math(EXPR length "${end} + 1")
    string(SUBSTRING "${rest}" 0 ${length} block)
    string(SUBSTRING "${rest}" ${length} -1 rest)
    string(FIND "${compiled}" "${block}" found)
    if(found EQUAL -1)
      broken("${file}: in no file that is compiled:${block}")
    endif()
    math(EXPR blocks "${blocks} + 1")
  endwhile()
endforeach()
if(blocks LESS 60)
  broken("only ${blocks} blocks of C++ were found")
endif()

# -- what is marked is shown ---------------------------------------------------

foreach(pair IN ITEMS "README.md|examples/checkout/checkout.hpp"
        "docs/guide/machines.md|examples/embedded/main.cpp")
  string(REPLACE "|" ";" pair "${pair}")
  list(GET pair 0 document)
  list(GET pair 1 file)
  read_flat("${document}" shown)
  read_flat("${file}" text)
  string(FIND "${text}" "\n// [shown]\n" begin)
  string(FIND "${text}" "\n// [/shown]\n" end)
  if(begin EQUAL -1 OR end LESS begin)
    broken("${file}: nothing is marked [shown]")
    continue()
  endif()
  math(EXPR begin "${begin} + 11")
  math(EXPR length "${end} - ${begin} + 1")
  string(SUBSTRING "${text}" ${begin} ${length} marked)
  string(FIND "${shown}" "${marked}" found)
  if(found EQUAL -1)
    broken("${document} does not show what ${file} marks [shown]")
  endif()
endforeach()

# -- links lead somewhere ------------------------------------------------------

# anchors_of(<file> <result>): what links can name in it, as GitHub makes it.
function(anchors_of file result)
  file(READ "${file}" text)
  string(REGEX REPLACE "[][;]" "" text "\n${text}")
  string(REGEX MATCHALL "\n##* [^\n]+" anchors "${text}")
  list(TRANSFORM anchors REPLACE "^\n#* " "")
  list(TRANSFORM anchors TOLOWER)
  list(TRANSFORM anchors REPLACE "[^a-z0-9 _-]" "")
  list(TRANSFORM anchors REPLACE " " "-")
  set(${result} "${anchors}" PARENT_SCOPE)
endfunction()

list(APPEND documents CHANGELOG.md CONTRIBUTING.md docs/tutorial.md sql/README.md)
foreach(file IN LISTS documents)
  file(READ "${ROOT}/${file}" text)
  cmake_path(GET file PARENT_PATH directory)
  string(REGEX REPLACE "[][;]" "|" text "${text}") # they mean something in lists
  string(REGEX MATCHALL "\\|\\([A-Za-z0-9_./:#-]+\\)" links "${text}")
  foreach(link IN LISTS links)
    string(REGEX REPLACE "^..([^)#]*).*$" "\\1" target "${link}")
    if(target AND NOT target MATCHES "^https?:"
       AND NOT EXISTS "${ROOT}/${directory}/${target}")
      broken("${file}: ${target} does not exist")
      continue()
    endif()
    if(NOT target MATCHES "^https?:" AND link MATCHES "#([^)]*)")
      set(anchor "${CMAKE_MATCH_1}")
      if(target)
        anchors_of("${ROOT}/${directory}/${target}" anchors)
      else()
        anchors_of("${ROOT}/${file}" anchors)
      endif()
      if(NOT anchor IN_LIST anchors)
        broken("${file}: ${target} has no heading #${anchor}")
      endif()
    endif()
  endforeach()
endforeach()

if(broken)
  message(FATAL_ERROR "the documentation is wrong in ${broken} places")
endif()
