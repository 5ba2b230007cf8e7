#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check.bash MPIEXEC NUMPROC_FLAG PROGRAM: a failure that only one rank leaves a test with ends all
# ranks, and the next test runs after any other failure. The failure is printed in each case.
set -u
fail() {
  printf 'FAILED %s: %s\n%s\n' "$test" "$1" "$output"
  exit 1
}

for expected in AssertOnOneRank:ended ExceptionOnOneRank:ended AssertBeforeACollectiveEnd:ended \
                AssertOnAllRanks:went_on ExpectOnOneRank:went_on; do
  test=${expected%:*}
  output=$(timeout -k 5 30 "$1" "$2" 3 "$3" --gtest_filter="Planted.$test:Sound.*" 2>&1)
  status=$?
  ((status == 124 || status == 137)) && fail "the ranks wait for each other"
  ((status != 0)) || fail "exit status 0"
  [[ $output == *planted* ]] || fail "the failure is not printed"
  went_on=ended
  [[ $output == *"OK ] Sound.AllRanksArrive"* ]] && went_on=went_on
  [[ $went_on == "${expected#*:}" ]] || fail "the ranks $went_on"
done
