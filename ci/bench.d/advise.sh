# SPDX-License-Identifier: Apache-2.0
# A part of ci/bench, which sources it.
# shellcheck shell=bash disable=SC2154

# Asks `advise` what to use on this machine for the model of $deck on $ranks ranks. Then it runs the TOP best candidates (8; "all"
# for every one) and the best of each stage, one after the other in each of $turns rounds, and prints how much slower the advised
# one is than the fastest. MACHINE names an existing machine file, which replaces the calibration.
advise() {
  local machine i step_ms line sets
  calibrate_unless_given
  "$build_dir/shardmark" advise "$deck" --machine "$machine" --ranks "$ranks" --format json | candidates >"$scratch/candidates"
  for _ in $(seq "$turns"); do
    i=0
    while read -r step_ms line; do
      read -ra sets <<<"$line"
      run "$ranks" "${sets[@]}" run.steps=3 run.warmup=1 expect.loss_drop=0 2>&1 </dev/null |
        awk -v i="$i" -v predicted="$step_ms" -v sets="$line" '/^  step p50/ { print i, $3, predicted, sets }'
      i=$((i + 1))
    done <"$scratch/candidates"
  done | awk '
    { i = $1; if (!(i in ms) || $2 < ms[i]) ms[i] = $2; predicted[i] = $3; sub(/^[^ ]+ [^ ]+ [^ ]+ /, ""); sets[i] = $0; if (i + 1 > n) n = i + 1 }
    END {
      for (i = 0; i < n; i++) if (best == "" || ms[i] < ms[best]) best = i
      printf "%10s %12s %12s\n", "", "predicted ms", "measured ms"
      for (i = 0; i < n; i++) printf "%-10s %12.1f %12.1f  %s\n", i == best ? "fastest" : i == 0 ? "advised" : "", predicted[i], ms[i], sets[i]
      printf "of %d candidates that were run, the advised one is %.1f %% slower than the fastest\n", n, 100 * (ms[0] / ms[best] - 1)
      printf "{\"what\": \"advise\", \"candidates\": %d, \"slower\": %.4f}\n", n, ms[0] / ms[best] - 1 }' | keep
}

# From the JSON of `advise`: the predicted step in ms and the changes of each candidate to run, a line each, the best one first.
candidates() {
  awk -v top="${TOP:-8}" '
    /^  "candidates": \[/ { on = 1 }
    on && /^  \]/ { exit }
    on && /"deck_changes": \{/ { inside = 1; sets = ""; next }
    inside && /\}/ { inside = 0; next }
    inside { gsub(/^ *"|,$/, ""); sub(/": /, "="); sets = sets " " $0 }
    on && /"stage":/ { stage = $2 + 0 }
    on && /"step_s":/ { step = $2 + 0 }
    on && /^    \}/ {
      if (top == "all" || n++ < top || !(stage in seen)) print step * 1000 sets
      seen[stage] = 1
    }'
}
