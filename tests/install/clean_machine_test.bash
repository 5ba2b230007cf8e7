#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clean_machine_test.bash PROGRAM DECK MPIEXEC NUMPROC_FLAG: two ranks train to the same bits, and a
# plan has the same text, where the machine lacks what a desktop has: with a locale whose decimal
# point is a comma and whose i has no dot, without HOME, with a HOME that cannot be written, and in
# namespaces as containers have them, with 64 MiB of /dev/shm and no rights on /proc/sys. What this
# machine cannot imitate is named and left out.
set -euo pipefail
program=$1 deck=$2 launch=("$3" "$4" 2)
export OMP_NUM_THREADS=1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# MACHINE [COMMAND WORDS...]: runs and plans behind the command, and compares.
runs_on() {
  local name=$1; shift
  local out=$folder/${name// /-}
  mkdir "$out"
  "$@" "${launch[@]}" "$program" run "$deck" --out "$out/run" --set run.steps=3 --set run.warmup=1 \
    >"$out/text" 2>&1 || { echo "with $name: the run failed"; cat "$out/text"; exit 1; }
  tail -1 "$out/text" | grep -qx RESULT=VALID || { echo "with $name: no last line RESULT=VALID"; cat "$out/text"; exit 1; }
  "$@" "$program" plan "$deck" --ranks 4 >"$out/plan"
  cut -d, -f1-6 "$out/run/losses.csv" >"$out/losses"  # the last column has times
  cmp "$folder/nothing-unusual/losses" "$out/losses" &&
    cmp "$folder/nothing-unusual/plan" "$out/plan" || { echo "with $name: other values"; exit 1; }
  echo "with $name: the same values"
}

runs_on "nothing unusual"

locale=tr_TR.UTF-8
if localedef -i tr_TR -f UTF-8 "$folder/$locale" >/dev/null 2>&1; then
  export LOCPATH=$folder
elif ! locale -a | grep -qix 'tr_TR.utf-\?8'; then
  echo "a Turkish locale cannot be made here, so the program is only told of one"
fi
runs_on "a Turkish locale" env LANG=$locale LC_ALL=$locale LC_NUMERIC=$locale
if env -u HOME "$3" "$4" 1 true >/dev/null 2>&1; then
  runs_on "no home" env -u HOME
else
  echo "this launcher does not start without HOME, so that was not tried"
fi
runs_on "a home that cannot be written" env HOME=/proc

# As the root of a user namespace, which needs no rights where the system allows it.
# shellcheck disable=SC2016  # the inner shell expands them
container=(unshare --user --map-root-user --mount bash -c
           'mount -t tmpfs -o size=64m tmpfs /dev/shm && "$@"' -)
if "${container[@]}" true 2>/dev/null; then
  runs_on "64 MiB of shared memory and no rights" "${container[@]}"
else
  echo "namespaces of users cannot be made here, so small shared memory was not tried"
fi
