#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ci/kits/launcher with stand-ins: it takes the launcher of the program's MPI, whichever is called
# mpiexec, and says what is missing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

stand_in() {  # <name> <what it prints>
  printf '#!/bin/sh\necho "%s"\n' "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}

found() {  # the launcher of a program with MPI $1, among the stand-ins alone
  stand_in program "  mpi              $1"
  PATH=$work/bin "$bash" "$root/ci/kits/launcher" program
}

expect() {  # <what> <got> <wanted>
  [[ $2 == "$3" ]] || { echo "$1: $2, not $3" >&2; exit 1; }
}

bash=$(command -v bash)
mkdir "$work/bin"
for tool in sed grep; do ln -s "$(command -v $tool)" "$work/bin/$tool"; done
stand_in mpiexec "mpiexec (OpenRTE) 4.1.4"
stand_in mpiexec.mpich "HYDRA build details:"
expect "Open MPI" "$(found "Open MPI v4.1.4")" "$work/bin/mpiexec"
expect "MPICH beside Open MPI" "$(found "MPICH Version: 4.0.2")" "$work/bin/mpiexec.mpich"
stand_in mpiexec "HYDRA build details:"
expect "MPICH" "$(found "CRAY MPICH version 8.1.29")" "$work/bin/mpiexec"
stand_in mpirun.openmpi "mpirun.openmpi (Open MPI) 5.0.7"
expect "Open MPI beside MPICH" "$(found "Open MPI v5.0.7")" "$work/bin/mpirun.openmpi"
rm "$work/bin/mpirun.openmpi"
if found "Open MPI v5.0.7" >/dev/null 2>"$work/error"; then
  echo "no launcher of Open MPI, and no error" >&2
  exit 1
fi
grep -q "runs with Open MPI v5.0.7, and none of mpiexec" "$work/error"
if found "Some MPI 1" >/dev/null 2>"$work/error"; then
  echo "an unknown MPI, and no error" >&2
  exit 1
fi
grep -q "SHARDMARK_MPIEXEC" "$work/error"
echo "passed"
