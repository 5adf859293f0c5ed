# Tells the lines of Markdown that are wider than `columns`, but for code, tables, headings
# and those which only a link makes that wide.

# Characters, also where awk counts bytes.
function width(text) {
  gsub(/[\200-\277]/, "", text)
  return length(text)
}

FNR == 1 { fence = "" }
match($0, /^ *(```+|~~~+)/) {
  mark = substr($0, RSTART, RLENGTH)
  gsub(/ /, "", mark)
  if (fence == "") fence = mark
  else if (mark == fence) fence = ""
  next
}
fence != "" || /^ *\|/ || /^#/ || /^    / { next }
width($0) > columns {
  text = $0
  gsub(/\]\([^)]*\)/, "]", text)      # what a link leads to
  gsub(/^ *\[[^]]*\]: .*/, "", text)  # what stands for one
  gsub(/https?:[^ ]*/, "", text)
  if (width(text) > columns)
    printf "%s:%d: has %d columns, and may have %d\n", FILENAME, FNR, width($0), columns
}
