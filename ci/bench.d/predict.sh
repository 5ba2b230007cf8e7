# SPDX-License-Identifier: Apache-2.0
# Parts of ci/bench, which sources this file.
# shellcheck shell=bash disable=SC2154

# Sets `machine` to the machine file to use: MACHINE, or else a calibration of this machine, made now. If there is one already,
# the file has the means of both.
calibrate_unless_given() {
  machine=${MACHINE:-$scratch/machine.json}
  [[ -n ${MACHINE:-} ]] || on "$ranks" "$build_dir/shardmark" calibrate --add --out "$machine" --disk "$scratch"
}

# Calibrates this machine and then runs decks that the calibration did not use. Prints the predicted and the measured step time,
# the errors, and the spread of repeated steps (p99 / p50 - 1). One deck, which is run right after the calibration and again before
# each other deck, shows as "drift" how much slower the machine itself has become since, and "less drift" is the error without it.
# That is done in each of ROUNDS rounds (5), and the table has their geometric means: on a shared machine the bandwidth of memory
# may be half as high for as long as a calibration or a run takes. MACHINE names an existing machine file, which replaces the
# calibrations. Where a run says that its cores were farther apart or closer than in any calibration (on a virtual machine, whose
# host moves them), there is another calibration, at most twice per round, and the deck runs again. DECKS is a pattern that
# selects names in ci/bench.d/predict_decks.
predict() {
  local machine name n family line sets since_ms now_ms again
  for _ in $(seq "${ROUNDS:-5}"); do
    rm -f "$scratch/machine.json"
    calibrate_unless_given >&2
    since_ms=$(drift_ms) again=2
    grep -vE '^#' ci/bench.d/predict_decks | grep -E "${DECKS:-.}" | while read -r name n family line; do
      read -ra sets <<<"$line"
      now_ms=$(drift_ms)
      run_predicted "$name" "$n" "$family" "${sets[@]}"
      if [[ -z ${MACHINE:-} ]] && ((again > 0)) && grep -q 'extrapolates cores' "$scratch/$name.log"; then
        again=$((again - 1))
        calibrate_unless_given >&2 </dev/null
        run_predicted "$name" "$n" "$family" "${sets[@]}"
      fi
      predicted_beside_measured "$name" "$scratch/$name.log" "$(awk -v now="$now_ms" -v since="$since_ms" 'BEGIN { print now / since - 1 }')"
    done
  done | table_of_predictions
}

# Runs a deck of predict_decks on the machine file of predict(), and leaves what it says in a log.
run_predicted() {  # name ranks family sets ...
  local name=$1 n=$2 deck=inputs/gpt-tiny-z0.json set=() s
  [[ $3 == llama ]] && deck=inputs/llama-tiny-z3.json
  for s in "${@:4}"; do
    s=${s/#m./model.} s=${s/#r./run.} s=${s/#z./$zero.} s=${s/#d./deepspeed.}
    set+=(--set "${s/@scratch@/$scratch}")
  done
  on "$n" "$build_dir/shardmark" run "$deck" "${set[@]}" --set "run.steps=$((4 * turns))" --set run.warmup=2 \
    --set expect.loss_drop=0 --machine "$machine" --out "$scratch/$name" >"$scratch/$name.log" 2>&1 </dev/null || true
}

# Prints the median step of the deck that shows the drift, in ms.
drift_ms() {
  on "$ranks" "$build_dir/shardmark" run inputs/gpt-tiny-z0.json --set model.hidden=320 --set model.heads=5 \
    --set "run.steps=$((2 * turns))" --set run.warmup=2 --set expect.loss_drop=0 --out "$scratch/drift" 2>&1 </dev/null |
    awk '/^  step p50/ { print $3 }'
}

# Compares the predicted times of single collectives of every verb with measured ones, at sizes between the calibrated ones. What
# `calibrate` measures of collectives, and the collectives that are compared, take twice TURNS turns in one run. MACHINE names an
# existing machine file, which replaces the former. LARGEST is the largest array, in MiB (1024); arrays of so few MiB that a cache
# holds them are faster than those of a calibration.
predicted_collectives() {
  on "$ranks" "$build_dir/ci/bench.d/bench_predicted_collectives" "$((2 * turns))" "${LARGEST:-1024}" ${MACHINE:+"$MACHINE"} | keep
}

# For each of LINKS ("0.5 1 2"): calibrates 2 hosts, and then runs a deck without computation at each stage on each number of hosts
# of HOSTS ("2 3 4"), in each of ROUNDS rounds (1), as in predict(). RANKS ranks run on each host (1). A packet takes LATENCY_US (0)
# longer, in the calibration as well. CALIBRATION="" measures more sizes (--quick). The calibration waits as runs on more hosts
# do, which share the cores of this machine.
hosts_predict() {
  export SHARDMARK_SHARED_CORES=1
  local link n stage name machine on_hosts ranks=${RANKS:-1} latency_us=${LATENCY_US:-0}
  for link in $(for _ in $(seq "${ROUNDS:-1}"); do echo "${LINKS:-0.5 1 2}"; done); do
    on_hosts=(--ranks "$ranks" --gbps "$link" --latency-us "$latency_us" -- "$build_dir/shardmark")
    machine=$scratch/$link.json
    # shellcheck disable=SC2086  # the options are words
    ci/hosts 2 "${on_hosts[@]}" calibrate ${CALIBRATION---quick} --out "$machine" --disk "$scratch" >&2
    for n in ${HOSTS:-2 3 4}; do
      for stage in 0 1 2 3; do
        name=$link-gbps-$n-hosts-z$stage
        ci/hosts "$n" "${on_hosts[@]}" run inputs/gpt-tiny-z3.json --set run.compute=none --set "run.steps=$((2 * turns))" \
          --set run.warmup=2 --set "$zero.stage=$stage" --machine "$machine" --out "$scratch/$name" \
          >"$scratch/$name.log" 2>&1 </dev/null || true
        predicted_beside_measured "$name" "$scratch/$name.log"
      done
    done
  done | table_of_predictions
  unset SHARDMARK_SHARED_CORES
}

# What the log of a run with --machine says, as a line of JSON. `drift` is what else is known of the machine, see predict().
predicted_beside_measured() {  # name log [drift]
  awk -v name="$1" -v drift="${3:-0}" '
    /^Time, predicted on/ { on = 1 }
    /^$/ { on = 0 }
    on && /^  (step|forward|backward|optimizer|copies|exposed) / { p[$1] = $2; m[$1] = $3 }
    /^  step p50/ { noise = $5 / $3 - 1 }
    END {
      if (!("step" in p)) { printf "{\"what\": \"predict %s\", \"failed\": true}\n", name; exit }
      printf "{\"what\": \"predict %s\", \"step_ms\": %s, \"measured_ms\": %s, \"noise\": %.3f, \"drift\": %.3f", name, p["step"], m["step"], noise, drift
      for (k in p) if (m[k] + 0 > 0) printf ", \"error_%s\": %.4f", k, p[k] / m[k] - 1
      print "}" }' "$2"
}

# The figures of a deck that ran several times are geometric means. A pair is ranked wrongly if its measured steps differ by more
# than 10 % and its predicted ones are in the other order.
table_of_predictions() {
  tee -a "$out" | awk '
    function of(key) { return match($0, "\"" key "\": -?[0-9.]+") ? substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4) + 0 : 0 }
    function size(x) { return x < 0 ? -x : x }
    function mean(key) { return exp(logs[name, key] / runs[name]) - 1 }
    { name = $0; sub(/.*predict /, "", name); sub(/".*/, "", name) }
    /failed/ { printf "%-28s failed\n", name; next }
    {
      if (!runs[name]++) names[++n] = name
      step_ms[name] += log(of("step_ms")); measured_ms[name] += log(of("measured_ms"))
      split("error_step error_forward error_backward error_optimizer noise drift", keys)
      for (k in keys) logs[name, keys[k]] += log(1 + of(keys[k])) }
    END {
      if (!n) exit
      printf "%-28s %12s %12s %8s %8s %8s %8s %8s %8s %10s\n", "", "predicted ms", "measured ms", "step", "forward", "backward", "optim.", "noise", "drift", "less drift"
      for (i = 1; i <= n; i++) {
        name = names[i]; p[i] = exp(step_ms[name] / runs[name]); m[i] = exp(measured_ms[name] / runs[name])
        rest = (1 + mean("error_step")) * (1 + mean("drift")) - 1
        printf "%-28s %12.2f %12.2f %7.1f%% %7.1f%% %7.1f%% %7.1f%% %7.1f%% %7.1f%% %9.1f%%\n", name, p[i], m[i], 100 * mean("error_step"),
          100 * mean("error_forward"), 100 * mean("error_backward"), 100 * mean("error_optimizer"), 100 * mean("noise"), 100 * mean("drift"), 100 * rest
        e = size(mean("error_step")); sum += e; if (e > worst) worst = e
        moved += size(mean("drift")); still += size(rest); if (size(rest) > still_worst) still_worst = size(rest)
        f += size(mean("error_forward")); b += size(mean("error_backward")); o += size(mean("error_optimizer"))
        for (j = 1; j < i; j++) if ((m[j] > 1.1 * m[i] && p[j] < p[i]) || (1.1 * m[j] < m[i] && p[j] > p[i])) { wrong++; print "  ranked wrongly: " names[j] " and " name } }
      printf "%d decks: step %.1f %% mean, %.1f %% worst (the machine drifted by %.1f %%; %.1f %% mean, %.1f %% worst without that); forward %.1f %%, backward %.1f %%, optimizer %.1f %% mean; %d of %d pairs ranked wrongly\n",
        n, 100 * sum / n, 100 * worst, 100 * moved / n, 100 * still / n, 100 * still_worst, 100 * f / n, 100 * b / n, 100 * o / n, wrong, n * (n - 1) / 2 }'
}
