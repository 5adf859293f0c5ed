# Tells which functions in C++ files have more than `function_lines` lines, each as
# "<file>:<line>: ...". What counts as a function is everything in braces that is neither
# in another one nor a namespace, a class or an enumeration: from the first line of its
# declaration to its closing brace.
#
# Run as awk -v function_lines=<n> -f tests/lengths.awk <file>...

function end_of_file() {
  end_of_function()
  if (depth != 0 || raw)
    print name ": its braces cannot be followed"
}

function end_of_function() {
  if (ended && ended - began + 1 > function_lines)
    print name ":" began ": a function has " ended - began + 1 \
      " lines, expected at most " function_lines
  ended = 0
}

# The line without what is in strings, character literals and comments.
function code_of(line,    at) {
  if (raw) { # in a raw string
    at = index(line, raw)
    if (!at)
      return ""
    line = substr(line, at + length(raw))
    raw = ""
  }
  gsub(/\\./, "", line)
  gsub(/'[{}"]'/, "", line)
  while (match(line, /R"[a-z]*\(/)) {
    raw = ")" substr(line, RSTART + 2, RLENGTH - 3) "\""
    at = index(substr(line, RSTART + RLENGTH), raw)
    if (!at) {
      line = substr(line, 1, RSTART - 1)
      break
    }
    line = substr(line, 1, RSTART - 1) \
      substr(line, RSTART + RLENGTH + at - 1 + length(raw))
    raw = ""
  }
  gsub(/"[^"]*"/, "", line)
  sub(/\/\/.*/, "", line)
  return line
}

FNR == 1 {
  if (NR > 1)
    end_of_file()
  name = FILENAME
  depth = inside = directive = 0
  raw = head = ""
}

{
  line = code_of($0)
  skip = directive || line ~ /^[ \t]*#/
  directive = skip && $0 ~ /\\$/
  if (skip || line ~ /^ *(public|private|protected):/)
    next
  n = length(line)
  for (i = 1; i <= n; ++i) {
    c = substr(line, i, 1)
    if (c ~ /[ \t]/) {
      head = head == "" ? "" : head " "
      continue
    }
    if (inside) { # a function: where does it end?
      depth += (c == "{") - (c == "}")
      if (depth < inside) {
        inside = 0
        ended = FNR
        head = ""
      }
      continue
    }
    if (ended && (c == "," || c == "{")) { # that was a member's initializer
      ended = 0
      head = "a function"
    }
    end_of_function()
    if (c == ";" || c == "}") {
      depth -= c == "}"
      head = ""
    } else if (c == "{") {
      ++depth
      sub(/^template *<.*> */, "", head)
      if (head !~ /^(inline )?(namespace|struct|class|union|enum)( |$)/ \
          && head !~ /^extern *$/)
        inside = depth
      head = ""
    } else {
      if (head == "")
        began = FNR
      head = head c
    }
  }
  if (head != "")
    head = head " "
}

END {
  end_of_file()
}
