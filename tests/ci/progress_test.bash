#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ci/progress drops nothing but ninja's lines of status, and prints few lines of its own.
set -uo pipefail
progress=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../ci/progress")
failures=0
# expect <what> <wanted> <input>
expect() {
  local have
  have=$(printf '%b' "$3" | "$progress" "building:" | sed -E 's/ in [0-9]+ min [0-9]+ s$//')
  if [[ $have != "$2" ]]; then
    printf '%s: wanted:\n%s\nhave:\n%s\n' "$1" "$2" "$have"
    failures=$((failures + 1))
  fi
}
lines=$(for i in $(seq 1 200); do echo "@progress $i 200 file $i"; done)
expect "a build that takes less than 5 seconds" \
       $'building: 1 of 200 files\nbuilding: 200 of 200 files' "$lines\n"
expect "errors are passed on, and the end is not claimed" \
       $'building: 1 of 3 files\nFAILED: b.o\n  b.cpp:1: error: \\x\nninja: build stopped: subcommand failed.' \
       '@progress 1 3 a\n@progress 2 3 b\nFAILED: b.o\n  b.cpp:1: error: \\x\nninja: build stopped: subcommand failed.\n'
expect "nothing to do" "building: everything is up to date" 'ninja: no work to do.\n'
expect "another generator's lines" $'[ 50%] Building a.o\nno newline' '[ 50%] Building a.o\nno newline'

have=$({ echo "@progress 1 4 a"; sleep 11; echo "@progress 2 4 b"; } | "$progress" "building:")
if [[ $have != *"2 of 4 files, less than a minute left"* ]]; then
  printf 'no time that is left in:\n%s\n' "$have"
  failures=$((failures + 1))
fi
exit $((failures > 0))
