#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ci/setup with an apt-get that is made up: what it needs it installs or it fails with apt-get's own
# message; what is optional only causes a warning.
set -uo pipefail
setup=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../ci/setup")
FAKE=$(mktemp -d)
export FAKE
trap 'rm -rf "$FAKE"' EXIT
mkdir "$FAKE/bin"
cat >"$FAKE/bin/dpkg-query" <<'END'
#!/usr/bin/env bash
grep -qx -- "${@: -1}" "$FAKE/installed" && printf installed
END
cat >"$FAKE/bin/apt-cache" <<'END'
#!/usr/bin/env bash
[[ $2 != libkokkos-dev ]] && ! grep -qx -- "$2" "$FAKE/unknown"
END
# Its status lines are those of apt-get with APT::Status-Fd=3.
cat >"$FAKE/bin/apt-get" <<'END'
#!/usr/bin/env bash
echo "$*" >>"$FAKE/calls"
[[ " $* " == *" update "* ]] && exit 0
for package in "$@"; do
  if grep -qx -- "$package" "$FAKE/broken"; then
    echo "E: cannot fetch $package"
    exit 100
  fi
done
echo "dlstatus:1:40.5:Retrieving file 1 of 2" >&3
sleep "$(cat "$FAKE/seconds")"
echo "pmstatus:libc6:amd64:62.5:Unpacking libc6 (amd64)" >&3
echo "Setting up libc6" || exit 100
printf '%s\n' "$@" >>"$FAKE/installed"
END
printf '#!/usr/bin/env bash\nexec "$@"\n' >"$FAKE/bin/sudo"
chmod +x "$FAKE/bin/"*
PATH=$FAKE/bin:$PATH

# begin <what>: a system without any package.
begin() {
  what=$1
  rm -f "$FAKE"/{installed,unknown,broken,calls}
  touch "$FAKE"/{installed,unknown,broken,calls}
  echo 0 >"$FAKE/seconds"
}
run() {
  text=$("$setup" "$@" 2>&1)
  status=$?
}
failures=0
check() {
  if ! "$@"; then
    printf '%s: failed: %s\nstatus %s, printed:\n%s\n' "$what" "$*" "$status" "$text"
    failures=$((failures + 1))
  fi
}
ends_with() { [[ $status == "$1" ]]; }
says() { [[ $text == *"$1"* ]]; }
silent_about() { [[ $text != *"$1"* ]]; }
has() { grep -qx -- "$1" "$FAKE/installed"; }
calls() { [[ $(wc -l <"$FAKE/calls") == "$1" ]]; }

begin "everything can be installed"
echo 6 >"$FAKE/seconds"
run more --optional jube
check ends_with 0
for package in mpich more jube libyaml-cpp-dev; do
  check has $package
done
check says "62 % unpacked"
check silent_about "Setting up"
check silent_about warning
check calls 1
run more --optional jube
check ends_with 0
check calls 1

begin "an optional package does not exist"
echo libyaml-cpp-dev >"$FAKE/unknown"
run
check ends_with 0
check has mpich
check says "warning: could not install libyaml-cpp-dev;"
run
check ends_with 0
check calls 1

begin "an optional package cannot be installed"
echo jube >"$FAKE/broken"
run --optional jube
check ends_with 0
check has mpich
check says "warning: could not install jube;"
check has libyaml-cpp-dev
run --optional jube
check ends_with 0
check says "warning: could not install jube;"
check has libyaml-cpp-dev

begin "a package that is needed cannot be installed"
echo mpich >"$FAKE/broken"
run
check ends_with 1
check says "E: cannot fetch mpich"

exit $((failures > 0))
