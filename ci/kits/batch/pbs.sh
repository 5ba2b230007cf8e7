#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PBS Professional and OpenPBS: qsub -v DECK=gpt2-124m-z3 ci/kits/batch/pbs.sh
# The deck's run.time_limit_s ends the run in time: the job's limit is 3600 s, the run's 3400 s.
#PBS -N shardmark
#PBS -l select=2:ncpus=32:mpiprocs=4:ompthreads=8
#PBS -l walltime=01:00:00
set -uo pipefail
cd "$PBS_O_WORKDIR" || exit 4
mpiexec "${SHARDMARK_BIN:-shardmark}" run "${DECK:-gpt-tiny-z3}" --out "shardmark-${PBS_JOBID%%.*}" \
    --set run.time_limit_s=3400
status=$?
if ((status == 6)); then
  qsub -W depend=afterany:"$PBS_JOBID" -v DECK="${DECK:-gpt-tiny-z3}" "$0"
fi
exit "$status"
