# What the test scripts share. A test is a function: `check NAME FUNCTION` runs it in a subshell in which the first failing command
# ends it, and prints the line that tests/run counts. `finish` closes the script.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/${BUILD:-build}
objdet=$build/objdet
dir=$(mktemp -d "${TMPDIR:-/tmp}/objdet-test-XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0

check() {
  echo "[ RUN      ] $1"
  (set -e; cd "$dir"; "$2") # no `||` here: it would switch -e off inside
  if [ $? -eq 0 ]; then echo "[       OK ] $1"; else echo "[  FAILED  ] $1"; bad=1; fi
}

skip() { # NAME REASON
  echo "SKIPPED: $1: $2"
  echo "[  SKIPPED ] $1"
}

# The command fails with this code, and its stderr holds the text.
fails_with() { # CODE TEXT COMMAND...
  code=$1 text=$2
  shift 2
  rc=0
  "$@" >out.txt 2>err.txt || rc=$?
  [ "$rc" -eq "$code" ] || { echo "exit $rc instead of $code: $*"; cat err.txt; return 1; }
  grep -qF -- "$text" err.txt || { echo "'$text' is not in what it said:"; cat err.txt; return 1; }
}

finish() { exit $bad; }
