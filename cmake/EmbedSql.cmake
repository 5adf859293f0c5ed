# Turns sql/<folder>/*.sql, one statement per file, into gd::sql::<file name>
# constants: gd_embed_sql. What several share is in sql/parts. Turns the pairs
# sql/schema/<NNN>_<name>.up.sql and .down.sql into gd::sql::migrations[]:
# gd_embed_migrations. Editing, adding or removing a file re-runs this.

# Sets <result> to <text> without what stands for other variants: between a line
# "-- if <flag>", or "-- if not <flag>", and "-- end". They lie beside each other.
function(gd_choose_sql text flags result)
  while("\n${text}" MATCHES "\n(-- if (not )?([a-z]+)\n)")
    set(line "${CMAKE_MATCH_1}")
    set(chosen FALSE)
    if(CMAKE_MATCH_3 IN_LIST flags)
      set(chosen TRUE)
    endif()
    if(CMAKE_MATCH_2)
      if(chosen)
        set(chosen FALSE)
      else()
        set(chosen TRUE)
      endif()
    endif()
    string(FIND "${text}" "${line}" begin)
    string(SUBSTRING "${text}" 0 ${begin} before)
    string(LENGTH "${line}" length)
    math(EXPR begin "${begin} + ${length}")
    string(SUBSTRING "${text}" ${begin} -1 rest)
    string(FIND "${rest}" "-- end\n" end)
    if(end EQUAL -1)
      message(FATAL_ERROR "expected \"-- end\" behind \"${line}\"")
    endif()
    string(SUBSTRING "${rest}" 0 ${end} block)
    if(block MATCHES "-- if ")
      message(FATAL_ERROR "expected \"-- end\" before the next: ${line}${block}")
    endif()
    math(EXPR end "${end} + 7")
    string(SUBSTRING "${rest}" ${end} -1 after)
    if(chosen)
      set(text "${before}${block}${after}")
    else()
      set(text "${before}${after}")
    endif()
  endwhile()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# Sets <result> to the text of <file> with these flags. A line "-- include
# <folder>/<name>.sql" stands for the text of that file in sql.
function(gd_expand_sql file flags result)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  file(READ "${file}" text)
  gd_choose_sql("${text}" "${flags}" text)
  while(text MATCHES "(^|\n)(-- include ([a-z_/]+\\.sql)\n)")
    set(line "${CMAKE_MATCH_2}")
    get_filename_component(part "${CMAKE_MATCH_3}" ABSOLUTE
      BASE_DIR "${PROJECT_SOURCE_DIR}/sql")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${part}")
    file(READ "${part}" part)
    string(REPLACE "${line}" "${part}" text "${text}")
  endwhile()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# Sets <result> to a C++ raw string literal with the text of <file> with these flags.
function(gd_read_sql file flags result)
  gd_expand_sql("${file}" "${flags}" text)
  string(FIND "${text}" ")sql\"" end)
  if(NOT end EQUAL -1)
    message(FATAL_ERROR
      "${file} contains )sql\", which ends the C++ literal it is embedded in")
  endif()
  set(${result} "R\"sql(${text})sql\"" PARENT_SCOPE)
endfunction()

# Adds the statement <name> that <file> is with these flags to GD_SQL and GD_SQL_ALL.
function(gd_add_statement name file flags)
  if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "${file}: its name must be a C++ identifier, [a-z0-9_]")
  endif()
  get_property(other GLOBAL PROPERTY "GD_SQL_${name}")
  if(other)
    message(FATAL_ERROR "${file}: expected another name than that of ${other}")
  endif()
  set_property(GLOBAL PROPERTY "GD_SQL_${name}" "${file}")
  gd_read_sql("${file}" "${flags}" text)
  set(GD_SQL
    "${GD_SQL}inline constexpr statement ${name}{\"gd_${name}\", ${text}};\n\n" PARENT_SCOPE)
  set(GD_SQL_ALL "${GD_SQL_ALL}  &${name},\n" PARENT_SCOPE)
endfunction()

# gd_embed_sql(<part> <header> <list> <folder>...): the statements of these folders of
# sql, in <gd/<header>.hpp> for gen_durable_<part> alone; <list> names them all. A
# name stands for one statement, in whatever folder. A file is the statement of its name,
# without flags, and, for each line "-- variant <name>: <flag>..." of its own, one more.
function(gd_embed_sql part header list)
  set(out "${PROJECT_BINARY_DIR}/generated/${part}")
  set(GD_SQL "")
  set(GD_SQL_ALL "")
  foreach(folder IN LISTS ARGN)
    file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/sql/${folder}/*.sql")
    if(folder STREQUAL "schema")
      list(FILTER files EXCLUDE REGEX "/([0-9][^/]*|tables)\\.sql$") # migrations
    endif()
    foreach(file IN LISTS files)
      get_filename_component(name "${file}" NAME_WLE)
      gd_add_statement("${name}" "${file}" "")
      file(STRINGS "${file}" variants REGEX "^-- variant ")
      foreach(line IN LISTS variants)
        if(NOT line MATCHES "^-- variant ([a-z_]+): ([a-z ]+)(\\.|$)")
          message(FATAL_ERROR "${file}: expected \"-- variant <name>: <flag>...\", got ${line}")
        endif()
        set(name "${CMAKE_MATCH_1}")
        string(REPLACE " " ";" flags "${CMAKE_MATCH_2}")
        gd_add_statement("${name}" "${file}" "${flags}")
      endforeach()
    endforeach()
  endforeach()
  set(GD_SQL_LIST "${list}")
  list(JOIN ARGN ", " GD_SQL_FOLDERS)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/sql.hpp.in" "${out}/gd/${header}.hpp" @ONLY)
  target_include_directories(gen_durable_${part} PRIVATE "${out}")
endfunction()

# gd_embed_migrations(<part>): those of sql/schema, in <gd/migrations.hpp>. One that takes
# away what older libraries need says so in its first line: "-- works with libraries from
# <number>", of the oldest version whose library can do without.
function(gd_embed_migrations part)
  set(out "${PROJECT_BINARY_DIR}/generated/${part}")
  file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/sql/schema/[0-9]*.sql")
  set(GD_MIGRATIONS "")
  set(number 0)
  while(files)
    math(EXPR number "${number} + 1")
    math(EXPR digits "1000 + ${number}")
    string(SUBSTRING "${digits}" 1 3 digits)
    list(POP_FRONT files down_file up_file) # sorted: down before up
    get_filename_component(name "${down_file}" NAME)
    string(REGEX MATCH "^${digits}_([a-z0-9_]+)\\.down\\.sql$" name "${name}")
    set(title "${CMAKE_MATCH_1}")
    get_filename_component(name "${up_file}" NAME)
    if(NOT title OR NOT name STREQUAL "${digits}_${title}.up.sql")
      message(FATAL_ERROR
        "sql/schema must hold ${digits}_<name>.up.sql and ${digits}_<name>.down.sql"
        " here, not: ${down_file} ${up_file}")
    endif()
    gd_read_sql("${up_file}" "" up)
    set(works_from 0)
    if(up MATCHES "^R\"sql\\(-- works with libraries from ([0-9]+)\n")
      set(works_from "${CMAKE_MATCH_1}")
    endif()
    if(works_from GREATER number)
      message(FATAL_ERROR "${up_file}: expected to work with libraries from ${number} at the latest")
    endif()
    gd_read_sql("${down_file}" "" down)
    string(APPEND GD_MIGRATIONS
      "  {${number}, \"${title}\", ${works_from},\n   ${up},\n   ${down}},\n")
  endwhile()
  configure_file("${PROJECT_SOURCE_DIR}/cmake/migrations.hpp.in"
                 "${out}/gd/migrations.hpp" @ONLY)
  target_include_directories(gen_durable_${part} PRIVATE "${out}")
endfunction()
