#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Slurm: sbatch --nodes 2 ci/kits/batch/slurm.sh gpt2-124m-z3 [options of shardmark run]
# Two minutes before the time limit Slurm sends SIGUSR1. The run then finishes its step, writes a
# checkpoint if the deck has the section, and ends with status 6; the job is put back into the queue
# and goes on from the checkpoint (`"checkpoint": {"resume": "latest"}` in the deck).
#SBATCH --job-name=shardmark
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=01:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -uo pipefail
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
deck=${1:-gpt-tiny-z3}
shift || true
srun --cpu-bind=cores "${SHARDMARK_BIN:-shardmark}" run "$deck" --out "shardmark-${SLURM_JOB_ID}" "$@"
status=$?
if ((status == 6)); then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
