# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 The Culvert Authors
#
# Sourced by the scripts that run tests: runs a test program, keeps what it reports, and prints the lists at the end of a run.
# shellcheck source=dev/stages.bash

# Without debug information, and with an index of our own files alone, which finds the tests, a build takes a fifth less time.
# Every script that builds the tests uses these flags, so that nothing is built twice.
test_flags=(--build-tests -debug-info-format none -Xswiftc -index-ignore-system-modules -Xswiftc -index-ignore-clang-modules)
read -ra header_flags < <(dev/precompiled-header debug) || true
test_flags+=("${header_flags[@]}")
# As for a release: lld links the tests in half of the time that the default takes.
[[ $(uname) != Linux ]] || test_flags+=(-Xswiftc -use-ld=lld)
# CI compiles each module as a whole, in one process. Otherwise three or more processes read all files of the module and share
# the checks, which takes longer, but compiles less after a change of one file.
if in_ci; then
    test_flags+=(-Xswiftc -disable-batch-mode -Xswiftc -whole-module-optimization -Xswiftc -no-emit-module-separately-wmo)
    # With a number of threads, there is an object file for each source file, as SwiftPM expects.
    test_flags+=(-Xswiftc -num-threads -Xswiftc 1)
    # The check of the generated code finds errors of the compiler alone.
    test_flags+=(-Xswiftc -Xfrontend -Xswiftc -disable-llvm-verify)
fi

# As many tests as run side by side in a process hold no more than 600 files open. More at a time are not faster.
parallel_tests=24

# build_tests ARGUMENT...
build_tests() { build_quietly "${test_flags[@]}" "$@"; }

# The folder of the run's reports: event streams (*.jsonl), and flaky-N, one for each flaky test. The times of the compiler are in
# .build/stats: their path is a flag of the build.
# .ci/run sets it for all of its stages.
open_reports() {
    [[ -z ${CULVERT_REPORTS:-} ]] || return 0
    CULVERT_REPORTS=$(mktemp -d)
    own_reports=$CULVERT_REPORTS
}
close_reports() { [[ -z ${own_reports:-} ]] || rm -rf "$own_reports"; }

# test_events ARGUMENT...: dev/test-events.swift, compiled once for each folder of reports.
test_events() {
    local program=$CULVERT_REPORTS/test-events
    if [[ ! -x $program ]]; then
        swiftc -swift-version 6 -warnings-as-errors -o "$program.$BASHPID" dev/test-events.swift
        mv "$program.$BASHPID" "$program"
    fi
    "$program" "$@"
}

# run_tests NAME SECONDS COMMAND...: runs tests and prints failures and the runner's closing line. Their output and their event
# stream stay in the folder of reports.
run_tests() {
    local name=$1 log=$CULVERT_REPORTS/$1.log limit=$2 status=0
    shift 2
    set -- "$@" --event-stream-output-path "$CULVERT_REPORTS/$name.jsonl" --event-stream-version 0
    if [[ ${V:-} == 1 ]]; then
        timeout --kill-after=10 "$limit" "$@" </dev/null 2>&1 | tee "$log" || status=$?
    else
        timeout --kill-after=10 "$limit" "$@" </dev/null >"$log" 2>&1 || status=$?
        if ((status != 0)); then
            say "last lines:"
            tail -n 25 "$log"
            say "what failed:"
            failures "$log"
        else
            grep -E 'Test run with .* (passed|failed)' "$log" || true
        fi
    fi
    ((status != 124)) || fail "$name: no end after $limit seconds"
    ((status != 137)) || fail "$name: killed, after $limit seconds or for lack of memory"
    ((status == 0)) || return "$status"
    grep -qE 'Test run with [1-9][0-9]* tests? ' "$log" || fail "no test ran"
}

# failures LOG: the lines of failed tests, with the lines that follow an issue: what a program wrote, for one.
failures() { awk '/^(◇|✔|✘|↳)/ { rest = 0 } /✘|error:|Fatal error|FINDING:/ { rest = 30 } rest-- > 0 && shown++ < 150' "$1"; }

# print_left_out ID REASON...: reads lines of an ID, a tab and a reason, and prints each reason with its tests.
print_left_out() {
    awk -F'\t' '
        $2 == "is started by another test" { next }
        { reason = $2 == "" ? "no reason given" : $2; count[reason]++; names[reason] = names[reason] "\n    " $1 }
        END { for (reason in count) printf "left out, %s:%s\n", reason, names[reason] }'
}

# raise_descriptor_limit: lets the tests open as many files at a time as they do, where that may be.
raise_descriptor_limit() {
    local wanted=1024 soft hard
    soft=$(ulimit -Sn)
    hard=$(ulimit -Hn)
    [[ $soft != unlimited ]] && ((soft < wanted)) || return 0
    if [[ $hard != unlimited ]] && ((hard < wanted)); then
        say "note: only $hard files may be open at a time here (ulimit -Hn), and the tests need $wanted: some will fail"
        wanted=$hard
    fi
    ulimit -Sn "$wanted"
}

# missing_privileges: the rights and devices that tests with TUN devices and namespaces lack here, if any.
missing_privileges() {
    local capabilities missing=
    is_root || missing+=", root"
    capabilities=0x$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status 2>/dev/null)
    [[ $capabilities != 0x ]] || capabilities=0
    if is_root; then
        ((capabilities >> 12 & 1)) || missing+=", CAP_NET_ADMIN"
        ((capabilities >> 21 & 1)) || missing+=", CAP_SYS_ADMIN"
    fi
    # It can be there, and be refused by the container's device rules.
    [[ -c /dev/net/tun ]] && { : <>/dev/net/tun; } 2>/dev/null || missing+=", /dev/net/tun"
    if [[ -z $missing && ${CULVERT_NO_SANDBOX:-} != 1 ]]; then
        unshare --mount --net --pid --fork --mount-proc true 2>/dev/null || missing+=", new namespaces (unshare(2) is refused)"
    fi
    printf '%s' "${missing#, }"
}

# print_flaky: each flaky test with the output of both runs.
print_flaky() {
    local file
    for file in "$CULVERT_REPORTS"/flaky-*; do
        if [[ -f $file ]]; then cat "$file"; fi
    done
}

# print_reports: the slowest tests and targets, and at the end each flaky test.
print_reports() {
    if compgen -G "$CULVERT_REPORTS/*.jsonl" >/dev/null; then
        say "the slowest tests, in seconds:"
        test_events slowest 20 $parallel_tests "$CULVERT_REPORTS"/*.jsonl
    fi
    if [[ -d .build/stats ]]; then
        say "the targets that took the compiler longest, in seconds of all their files:"
        test_events targets 15 .build/stats
    fi
    print_flaky
}
