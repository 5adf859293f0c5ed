#!/usr/bin/env bash
# What gdctl says of itself: help, man pages and completions. Needs no database.
#   tests/pages.sh GDCTL
set -euo pipefail

gdctl=$1
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
cd "$work"
export GD_DATABASE="host=$work" # nobody is there
unset GD_SCHEMA

broken=0
broken() {
  echo "broken: $*" >&2
  broken=1
}

# -- every command, and every option of each -----------------------------------

# The entries of a page's section: name, what kind of value it takes (a dash: none), the
# first of its fixed values, and whether it must be there.
entries() { # PAGE SECTION
  awk -v section="$2" '
    function flush() { if (name) print name, kind, value, must; name = "" }
    /^\.SH/ { flush(); inside = $0 == ".SH " section; next }
    !inside { next }
    /^\.TP/ { flush(); next }
    /^\.BR? / && !name {
      gsub(/\\-/, "-"); name = $2; sub(/^-[a-z],/, "", name)
      kind = NF > 2 ? $4 : "-"; value = "-"; must = "no"
      gsub(/"/, "", kind); next
    }
    /^One of: / { value = $3; sub(/\.$/, "", value) }
    /^Required\.$/ { must = "yes" }
    END { flush() }' "$1"
}

sample() { # KIND VALUE
  case $2 in
    -) if [[ $1 == TEXT ]]; then echo x; else echo 1; fi ;;
    *) echo "$2" ;;
  esac
}

"$gdctl" completion bash > completion.bash
"$gdctl" completion zsh > completion.zsh
"$gdctl" completion fish > completion.fish
mkdir man1
"$gdctl" manual man1
"$gdctl" manual /nonexistent 2> said && broken "manual: a folder that is not there"
grep -q nonexistent said || broken "manual does not say which file it cannot write"

for page in man1/*.1; do
  name=$(basename "$page" .1)
  command=()
  # Names of commands have dashes, too: what the page says is its synopsis.
  read -ra command < <(sed -n '/^\.SH SYNOPSIS/ {n; s/^\.B gdctl//; s/\\//g; p; q}' "$page")
  "$gdctl" "${command[@]}" --help > help.txt || broken "$name: --help"
  for part in "Examples:" "  gdctl" "Exit codes:"; do
    grep -q -- "$part" help.txt || broken "$name: its help has no \"$part\""
  done
  needed=()
  while read -r _ kind value _; do
    needed+=("$(sample "$kind" "$value")")
  done < <(entries "$page" ARGUMENTS)
  while read -r option kind value must; do
    [[ $must == no ]] || needed+=("$option" "$(sample "$kind" "$value")")
  done < <(entries "$page" OPTIONS)
  # Those that help shows and those of the page are the same.
  entries "$page" OPTIONS | sed 's/ .*//' | sort > of-page
  grep -oE '^  (-[a-z],)?--[a-z-]+' help.txt | sed 's/.*--/--/' | sort > of-help
  diff of-help of-page > difference || broken "$name: $(cat difference)"
  [[ $name == gdctl ]] && continue # a command has to follow
  "$gdctl" "${command[@]}" "${needed[@]}" --no-such > /dev/null 2> said &&
    broken "$name takes --no-such"
  # Where a command has to follow, that is said first.
  grep -q "not expected" said || grep -q "subcommand is required" said ||
    broken "$name --no-such: $(cat said)"
  while read -r option kind value _; do
    [[ $option == --help ]] && continue
    words=("$option")
    [[ $kind == - ]] || words+=("$(sample "$kind" "$value")")
    "$gdctl" "${command[@]}" "${needed[@]}" "${words[@]}" > /dev/null 2> said < /dev/null || true
    ! grep -q "not expected" said || broken "$name ${words[*]}: $(cat said)"
    grep -A 3 "^    'gdctl${command[*]:+ ${command[*]}}')" completion.bash | grep -q -- "$option\b" ||
      broken "$name: the completion has no $option"
  done < <(entries "$page" OPTIONS)
done
[[ $(ls man1 | wc -l) -gt 30 ]] || broken "man pages: $(ls man1)"

# -- man pages -----------------------------------------------------------------

for page in man1/*.1; do
  groff -man -ww -Tutf8 -z "$page" 2> said
  [[ ! -s said ]] || broken "$page: $(head -3 said)"
  MANWIDTH=80 man --warnings -l "$page" 2> said > /dev/null
  [[ ! -s said ]] || broken "$page: $(head -3 said)"
done
groff -man -Tutf8 man1/gdctl-signal.1 | sed 's/\x1b\[[0-9;]*m//g' > text
for part in 'gdctl signal 7 payment_confirmed --payload' '{"target": 7, "name":'; do
  grep -qF -- "$part" text || broken "gdctl-signal.1 lacks $part"
done

# -- completion ----------------------------------------------------------------

statuses="runnable executing awaiting_signal done failed"

# What each line completes to: its last word is being typed.
cases() { # FUNCTION
  "$1" "machines manual" ma
  "$1" "pin" machines pi
  "$1" "run cancel" jobs ""
  "$1" "--step --status" list --st
  "$1" "$statuses" list --status ""
  "$1" "failed" retry --status f
  "$1" "done failed" prune --older-than 1d --status ""
  "$1" "--machine --machine-version" list --json --status failed --mac
  "$1" "--step" --schema jobs list --ste # jobs is the schema's name
  "$1" "--schema" migrate up --sch
  "$1" "bash zsh fish" completion ""
  "$1" "$work/man1/gdctl-why.1" insert --file "$work/man1/gdctl-wh"
  "$1" "" show 7 --no-such
}

bash -n completion.bash || broken "completion.bash"
(
  source ./completion.bash
  expect() { # EXPECTED WORD...
    local expected=$1
    COMP_WORDS=(gdctl "${@:2}")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _gdctl
    [[ "${COMPREPLY[*]}" == "$expected" ]] ||
      { broken "gdctl ${*:2}: expected $expected, got ${COMPREPLY[*]}"; }
  }
  cases expect
  expect "failed" list --status = f # as bash splits --status=f
  expect "$statuses" list --status =
  COMP_WORDS=(gdctl "") COMP_CWORD=1
  _gdctl
  for page in man1/*.1; do
    name=$(basename "$page" .1)
    name=${name#gdctl-}
    [[ $name == gdctl || " ${COMPREPLY[*]} " == *" $name "* || " ${COMPREPLY[*]} " == *" ${name%%-*} "* ]] ||
      broken "the completion does not know $name"
  done
  exit $broken
) || broken=1

zsh -n completion.zsh || broken "completion.zsh"
{
  declare -f cases
  printf '%s\n' "work=$work" "statuses='$statuses'"
  cat << 'END'
# In the place of what zle gives: they tell what they are asked to complete.
compdef() { :; }
compadd() { got+=("${@[2,-1]}"); }
_describe() { got+=("${(@)${(@P)2}%%:*}"); }
_files() { got+=($work/man1/*); }
compset() { PREFIX=${PREFIX#*=}; }
source ./completion.zsh
broken=0
expect() {
  local -a words got; local PREFIX CURRENT shown
  shown=$1
  words=(gdctl "${@[2,-1]}")
  CURRENT=$#words
  PREFIX=$words[-1]
  _gdctl
  got=(${(M)got:#$PREFIX*})
  [[ "$got" == "$shown" ]] || { print -u2 "broken: zsh: $words: expected $shown, got $got"; broken=1; }
}
cases expect
expect failed list --status=f
exit $broken
END
} > drive.zsh
zsh -f drive.zsh || broken=1

# fish itself says what it would show, sorted.
fish_expects() { # EXPECTED WORD...
  printf 'expect %q' "$(tr ' ' '\n' <<< "$1" | sort | paste -sd ' ')"
  shift
  printf ' %q' "gdctl $*" && echo
}
if command -v fish > /dev/null; then
  fish --no-execute completion.fish || broken "completion.fish"
  {
    cat << 'END'
source ./completion.fish
set -g broken 0
function expect
    set -l got (complete -C $argv[2] | string split -f 1 \t | sort)
    if test "$got" != "$argv[1]"
        echo "broken: fish: $argv[2]: expected $argv[1], got $got" >&2
        set broken 1
    end
end
END
    cases fish_expects
    fish_expects "--status=failed" list --status=f
    # What a command is stands beside it.
    cat << 'END'
complete -C 'gdctl sh' | string match -q 'show'\t'*'; or begin; echo 'broken: fish: show' >&2; set broken 1; end
exit $broken
END
  } > drive.fish
  HOME=$work fish --no-config drive.fish || broken=1
fi

exit $broken
