#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# stopped_rank.sh MPIEXEC NUMPROC_FLAG PROGRAM: checks that a stopped rank is named exactly once, that
# the program ends with status 5 within seconds, and that no process remains.
set -u
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

timeout -k 5 45 "$1" "$2" 3 "$3" >"$out/stdout" 2>"$out/stderr"
status=$?
cat "$out/stdout" "$out/stderr"

fail() {
  echo "stopped_rank: $1"
  exit 1
}

[ "$status" -eq 5 ] || fail "exit status $status: must be 5"
[ "$(grep -c 'pid' "$out/stdout")" -eq 3 ] || fail "three ranks must have started"
pid=$(sed -n 's/^rank 1 pid //p' "$out/stdout")
# The call is 16 if the rank was stopped before MPI had sent all its data of that call, and else 17.
message="all_reduce grad.block3 (call 1[67]) not finished after 1 s: rank 1 (host .*, pid $pid)"
grep -q "$message does not answer" "$out/stderr" || fail "rank 1 must be named"
[ "$(grep -c 'not finished' "$out/stderr")" -eq 1 ] || fail "the error must be printed once"
for pid in $(sed -n 's/^rank . pid //p' "$out/stdout"); do
  waited=0
  while kill -0 "$pid" 2>/dev/null; do
    [ "$waited" -lt 50 ] || fail "process $pid is left"
    waited=$((waited + 1))
    sleep 0.1
  done
done
echo "stopped_rank: passed"
