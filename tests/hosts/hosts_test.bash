#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# hosts_test.bash TEST: one test of the program on several hosts. Each function says its rule.
set -uo pipefail
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
hosts=$root/ci/hosts program=$BUILD_DIR/shardmark
mpiexec=$("$root/ci/kits/launcher" "$program") || exit
if [[ $("$mpiexec" --help 2>&1) != *-launcher-exec* ]]; then
  echo "the program's launcher is $mpiexec, and ci/hosts starts ranks with that of MPICH"
  exit 77
fi
# With MPICH over UCX's tcp, ranks of any program may hang in MPI_Finalize (docs/hosts.md).
export SHARDMARK_PHASE_LIMIT_S=${SHARDMARK_PHASE_LIMIT_S:-10}

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cat >"$place/deck.json" <<'END'
{ "model": { "family": "gpt2", "layers": 2, "hidden": 64, "heads": 2, "sequence": 32, "vocab": 256 },
  "data": { "source": "markov" },
  "deepspeed": { "train_micro_batch_size_per_gpu": 1,
                 "zero_optimization": { "stage": 3, "reduce_bucket_size": 100000, "stage3_prefetch_bucket_size": 50000,
                                        "stage3_param_persistence_threshold": 100 } },
  "run": { "steps": 3, "warmup": 1, "reductions": "ordered" }, "comm": { "timeout_s": 20 } }
END

failures=0
# For --meanwhile: waits until the run prints its first step, however slow the machine is.
begun="until grep -q '^step' $place/printed; do sleep 0.1; done"
# go COMMAND…: sets `text` to all that the command prints and `status`. The first call of a test may
# find that there can be no hosts here.
go() {
  what=$*
  : >"$place/printed"
  text=$("$@" 2>&1 </dev/null | tee "$place/printed"; exit "${PIPESTATUS[0]}")
  status=$?
  if [[ $status == 77 ]]; then
    echo "$text"
    exit 77
  fi
}
check() {
  if ! "$@"; then
    printf 'failed: %s\nafter: %s\nstatus %s, printed:\n%s\n' "$*" "$what" "$status" "$text"
    failures=$((failures + 1))
  fi
}
ends_with() { [[ $status == "$1" ]]; }
# A rank that hangs in MPI_Finalize ends by itself; the launcher may then kill the others and lose the
# status of the run.
ended_as() { ends_with "$1" || says "MPI_Finalize not finished"; }
says() { [[ $text == *"$1"* ]]; }
matches() { grep -qE -- "$1" <<<"$text"; }
silent_about() { [[ $text != *"$1"* ]]; }
# run_on HOSTS OPTION… -- ARGUMENT…: the deck on so many hosts, with further arguments of `run`.
run_on() {
  local options=()
  while [[ $1 != -- ]]; do
    options+=("$1")
    shift
  done
  go "$hosts" "${options[@]}" --limit "${LIMIT:-60}" -- "$program" run "$place/deck.json" --out "$place/out" "${@:2}"
}
# What must not depend on where the ranks run.
results() { grep -E '^(Loss|State hashes)|^  (memory|calls) +pass' <<<"$text"; }

# Rule: losses and hashes are those of as many ranks on one host, and calls and memory are as predicted.
same_as_one_host() {  # stage, ranks in all, options of ci/hosts…
  local stage=$1 ranks=$2 here
  shift 2
  go "$mpiexec" -n "$ranks" "$program" run "$place/deck.json" --out "$place/out" \
     --set "deepspeed.zero_optimization.stage=$stage" --set comm.backend=mpi
  here=$(results)
  check ended_as 0
  run_on "$@" -- --set "deepspeed.zero_optimization.stage=$stage"
  check ended_as 0
  check says RESULT=VALID
  check [ "$(results | wc -l)" == 4 ]
  check [ "$(results)" == "$here" ]
  check silent_about "left running"
}
stages() {
  same_as_one_host 0 2 2
  same_as_one_host 1 3 2 --ranks 2,1
  same_as_one_host 2 4 2 --ranks 2
  same_as_one_host 3 3 3
  same_as_one_host 3 2 2 --gbps 1 --latency-us 200
}
all_stages() {
  local stage
  for stage in 0 1 2 3; do
    same_as_one_host $stage 2 2
    same_as_one_host $stage 4 2 --ranks 2
    same_as_one_host $stage 3 2 --ranks 1,2
    same_as_one_host $stage 3 3
    same_as_one_host $stage 6 3 --ranks 2
    same_as_one_host $stage 4 3 --ranks 1,2,1
    same_as_one_host $stage 2 2 --loss 0.01
  done
}

# Rule: the report says which rank ran where, and each host counts its own ranks.
placement() {
  run_on 3 --ranks 2,1,1 -- --set run.steps=1
  check ended_as 0
  check matches '^  0-1 +host0 '
  check matches '^  2 +host1 '
  check matches '^  3 +host2 '
  check says "MemAvailable of the node (2 ranks)"
  check silent_about "have different values"
}

# Rule: a run continues from a checkpoint on fewer hosts; a folder that the hosts do not share is refused
# before the first step, and the message says who does not see it.
checkpoints() {
  local folder=$place/checkpoints hashes
  local keys=(--set "checkpoint.dir=$folder" --set checkpoint.every=2)
  run_on 3 -- "${keys[@]}"
  check ended_as 0
  hashes=$(grep '^State hashes' <<<"$text")
  run_on 2 -- "${keys[@]}" --set checkpoint.resume=latest
  check ended_as 0
  check [ "$(grep '^State hashes' <<<"$text")" == "$hashes" ]
  local layout
  for layout in file_per_rank shared; do
    rm -rf "$folder"
    mkdir "$folder"
    run_on 2 --private "$folder" -- "${keys[@]}" --set "checkpoint.layout=$layout"
    check ended_as 4
    check says "checkpoint.dir"
    check says "rank 1 (host host1)"
    check silent_about "step 1/"
  done
}

# Rule: when a host or its link is lost, the run ends with status 5 within the timeout, names the ranks and
# hosts that do not answer, and leaves nothing behind.
lost() {  # what happens to host1
  LIMIT=100 run_on 2 --ranks 1,2 --meanwhile "$begun; $1" -- --set run.steps=100000000 --set comm.timeout_s=2
  check ends_with 5
  check says "not finished after 2 s"
  check matches "rank 1 \(host host1, pid [0-9]+\) does not answer"
  check matches "rank 2 \(host host1, pid [0-9]+\) does not answer"
  check silent_about RESULT=
  check silent_about "left running"
}
failures() {
  lost "link host1 down"
}

# Rule: lost packets and latency make a run slower, not wrong.
bad_links() {
  lost "stop host1"
  same_as_one_host 3 2 2 --loss 0.02
  same_as_one_host 0 2 2 --latency-us 50000
  LIMIT=120 same_as_one_host 3 2 2 --latency-us 50000
  same_as_one_host 3 2 2 --gbps 0.05
  LIMIT=200 run_on 2 --meanwhile "$begun; link host1 down; sleep 1; link host1 up" -- --set run.steps=500
  check ended_as 0
  check says RESULT=VALID
}

# Rule: random collectives, several in flight, give no wrong value while packets are lost and ranks pause.
# ci/campaign collectives does the same many times.
many_collectives() {
  local options
  for options in "2 --ranks 2" 3; do
    # shellcheck disable=SC2086  # the options are words
    go "$hosts" $options --loss 0.01 --limit 140 -- "$BUILD_DIR/tests/hosts/many_collectives" \
      "${SHARDMARK_CAMPAIGN_CASES:-200}" "${SHARDMARK_CAMPAIGN_SEED:-1}"
    check matches '^[0-9]+ collectives of .*, 0 wrong elements$'  # MPI_Finalize may spoil the status
  done
}

# Rule: hosts with another deck are refused, and hosts with another program make the run INVALID. A machine file
# describes hosts that are alike, so calibrate refuses others.
inputs() {
  sed 's/"hidden": 64/"hidden": 32/' "$place/deck.json" >"$place/deck1.json"
  go "$hosts" 2 --limit 60 -- sh -c '[ $(hostname) = host0 ] || other=1
                                     exec "$1" run "$2/deck$other.json" --out "$2/out"' - "$program" "$place"
  check ended_as 2
  check says "rank 1 (host host1) has another deck"
  go "$hosts" 2 --ranks 2,1 --limit 60 -- "$program" calibrate --quick --out "$place/machine.json" --disk "$place"
  check ended_as 2
  check says "the nodes have 1 to 2 ranks"
  cp "$program" "$place/other"
  echo >>"$place/other"
  go "$hosts" 2 --limit 60 -- sh -c '[ $(hostname) = host0 ] && own=$1
                                     exec "${own:-$2/other}" run "$2/deck.json" --out "$2/out"' - "$program" "$place"
  check ended_as 1
  check says "RESULT=INVALID (inputs: rank 1 (host host1) has loaded other"
}

# Rule: clocks of hosts may differ by any time. Losses and hashes are the same, waiting ranks end within
# the timeout, and the report's times are those of one clock.
clocks() {
  go "$hosts" 2 --clocks 0,500000 -- cat /proc/uptime
  check [ "$(sort -n <<<"$text" | awk '{ if (NR > 1) printf "%.0f", ($1 - first) / 10000; first = $1 }')" == 50 ]
  same_as_one_host 3 2 2 --clocks 0,500000
  same_as_one_host 2 4 2 --ranks 2 --clocks 90000,0
  run_on 2 --clocks 500000,0 -- --set run.steps=8 --set 'perturb.hosts=["host1"]' --set perturb.pause_ms=100 \
    --set perturb.every=2
  check ended_as 0
  check [ "$(grep -A2 '^Ranks, ms' <<<"$text" | tail -1 | cut -c1-17)" == "  1       host1  " ]
  LIMIT=100 run_on 2 --clocks 0,500000 --meanwhile "$begun; link host1 down" -- --set run.steps=100000000 \
    --set comm.timeout_s=2
  check ends_with 5
  check matches "rank 1 \(host host1, pid [0-9]+\) does not answer"
  go "$hosts" 2 --clocks 1,2,3 -- true
  check ends_with 2
  check says "--clocks names 3 hosts"
}

# Rule: a rank that is made slower changes no value; the report names it, and the run is unofficial.
stragglers() {
  local hashes
  run_on 2 -- --set run.steps=8
  hashes=$(grep '^State hashes' <<<"$text")
  run_on 2 -- --set run.steps=8 --set 'perturb.hosts=["host1"]' --set perturb.pause_ms=100 --set perturb.every=2
  check ended_as 0
  check [ "$(grep '^State hashes' <<<"$text")" == "$hashes" ]
  check says "perturb: pauses of 100 ms, every 2 steps"
  check matches 'perturbed: 1 rank in 4 timed steps: the slowest lost [0-9.]+ ms, the run [0-9.]+ ms: amplification'
  check [ "$(grep -A2 '^Ranks, ms' <<<"$text" | tail -1 | cut -c1-17)" == "  1       host1  " ]
  run_on 2 -- --set run.steps=8 --set congestion.pattern=pairs --set 'congestion.hosts=["host0", "host1"]'
  check ended_as 0
  check [ "$(grep '^State hashes' <<<"$text")" == "$hashes" ]
  check matches 'congestion: pairs, messages of 1 MiB among 2 ranks: [0-9.]+ [KMG]iB in the timed steps'
  run_on 2 -- --set 'perturb.hosts=["host2"]' --set perturb.pause_ms=100
  check ended_as 2
  check says 'perturb.hosts = "host2": no rank runs there'
}

# Rule: ci/hosts passes on the status, has hosts with names and links as asked, ends what it starts, and
# refuses wrong calls.
script() {
  go "$hosts" 2 --ranks 1,2 -- sh -c 'echo "$(hostname) runs"; exit 3'
  check ends_with 3
  check [ "$(sort <<<"$text")" == $'host0 runs\nhost1 runs\nhost1 runs' ]
  go "$hosts" 2 --limit 20 -- bash -c 'kill -KILL $$'
  check silent_about "not finished"
  go "$hosts" 2 --limit 1 -- sleep 4711
  check ends_with 124
  "$hosts" 2 -- sleep 4712 &
  sleep 1
  kill -KILL $!
  wait $! 2>/dev/null
  sleep 0.5
  check [ -z "$(pgrep -f '^sleep 471[12]')" ]
  go "$hosts" 2 --meanwhile "on host1 hostname; sleep 0.2; link host1 down" -- sleep 1
  check says host1
  go "$hosts" 2 --gbps 0 -- true
  check ends_with 2
  check says "must be above 0"
  go "$hosts" 3 --ranks 1,2 -- true
  check ends_with 2
  check says "names 2 hosts"
  go "$hosts" 2 --loss 1 -- true
  check ends_with 2
  chmod 755 "$place"
  cp "$hosts" "$place/hosts"
  what="without root"
  text=$(cd / && setpriv --reuid 65534 --clear-groups bash "$place/hosts" 2 -- true 2>&1)
  status=$?
  check ends_with 77
  check says "needs root"
}

"$1"
exit $((failures > 0))
