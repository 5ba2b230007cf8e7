# SPDX-License-Identifier: Apache-2.0
# A part of ci/bench, which sources it.
# shellcheck shell=bash disable=SC2154

# Asks `advise` what to use on this machine for the model of $deck on $ranks ranks. Then it runs the TOP best candidates (8; "all"
# for every one) and the best of each stage, one after the other. In each further one of $turns rounds it runs those again that were
# at most an eighth slower than the fastest so far, because the fastest of many single runs is often just the one that was not
# disturbed. It prints the median step of each, and how much slower than the fastest the advised one is. MACHINE names an existing
# machine file, which replaces the calibration.
advise() {
  local machine round i line sets
  calibrate_unless_given
  "$build_dir/shardmark" advise "$deck" --machine "$machine" --ranks "$ranks" --format json | candidates >"$scratch/candidates"
  : >"$scratch/steps"
  for round in $(seq "$turns"); do
    summarize_candidates | awk -v first="$((round == 1))" '$1 == 1 || first || $4 < 1.125 { print $1 }' >"$scratch/chosen"
    while read -r i _ line; do
      read -ra sets <<<"$line"
      run "$ranks" "${sets[@]}" run.steps=3 run.warmup=1 expect.loss_drop=0 2>&1 </dev/null |
        awk -v i="$i" '/^  step p50/ { print i, $3 }' >>"$scratch/steps"
    done < <(awk 'NR == FNR { chosen[$1] = 1; next } FNR in chosen { print FNR, $0 }' "$scratch/chosen" "$scratch/candidates")
  done
  summarize_candidates | awk '
    NR == 1 { printf "%10s %12s %12s %5s\n", "", "predicted ms", "measured ms", "runs" }
    $1 == 1 { slower = $4 - 1 }
    { line = $0; sub(/^[^ ]+ [^ ]+ [^ ]+ [^ ]+ [^ ]+ ?/, "", line)
      printf "%-10s %12.1f %12.1f %5d  %s\n", $4 == 1 ? "fastest" : $1 == 1 ? "advised" : "", $2, $3, $5, line }
    END {
      printf "of %d candidates that were run, the advised one is %.1f %% slower than the fastest\n", NR, 100 * slower
      printf "{\"what\": \"advise\", \"candidates\": %d, \"slower\": %.4f}\n", NR, slower }' | keep
}

# Prints a line per candidate: its number, the predicted and the measured median step in ms, the latter over that of the fastest
# among those that ran most often, the number of runs, and its settings.
summarize_candidates() {
  { sort -k1,1n -k2,2n "$scratch/steps" | sed 's/^/run /'; sed 's/^/candidate /' "$scratch/candidates"; } | awk '
    $1 == "run" { i = $2; ms[i, ++n[i]] = $3; if (n[i] > most) most = n[i]; next }
    { predicted[++all] = $2; sub(/^[^ ]+ [^ ]+ ?/, ""); sets[all] = $0 }
    END {
      for (i = 1; i <= all; i++) {
        median[i] = n[i] ? (ms[i, int((n[i] + 1) / 2)] + ms[i, int(n[i] / 2) + 1]) / 2 : 0
        if (n[i] && n[i] == most && (!best || median[i] < best)) best = median[i] }
      for (i = 1; i <= all; i++) print i, predicted[i], median[i], best ? median[i] / best : 0, n[i] + 0, sets[i] }'
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
