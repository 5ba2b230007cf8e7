#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Flux: flux batch -N 2 -t 1h ci/kits/batch/flux.sh gpt2-124m-z3 [options of shardmark run]
set -uo pipefail
deck=${1:-gpt-tiny-z3}
shift || true
nodes=$(flux resource list -s up -no '{nnodes}' | paste -sd+ | bc)
flux run -N "$nodes" --tasks-per-node=4 --cores-per-task=8 -o cpu-affinity=per-task --env=OMP_NUM_THREADS=8 \
    "${SHARDMARK_BIN:-shardmark}" run "$deck" --out "shardmark-${FLUX_JOB_ID:-out}" --set run.time_limit_s=3400 "$@"
