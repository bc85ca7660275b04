# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 The Culvert Authors
#
# Sourced by the other scripts: stages with their times, and one summary line at the end.

cd "$(dirname "${BASH_SOURCE[0]}")/.."

stage_summary=()
stage_name=
stage_began=

# The same flags wherever a release build is made, so that nothing is built twice.
read -ra release_flags < <(scripts/release-flags)

say() { printf '%s\n' "$*"; }
fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}
in_ci() { [[ ${CI:-} == true || ${CI:-} == 1 ]]; }
is_root() { [[ $(id -u) == 0 ]]; }

# SwiftPM and the compiler (6.3) fail if the path of the temporary folder has letters beyond ASCII: they get another one.
swift_temporary() {
    local LC_ALL=C
    if [[ ${TMPDIR:-/tmp} == *[^\ -~]* ]]; then printf /tmp; else printf '%s' "${TMPDIR:-/tmp}"; fi
}
# SwiftPM passes the package's traits in the order of a set. In a random order they would be other flags after each new plan of
# a build, and all of our modules would be compiled again. Tests keep random orders.
swift() {
    local variables=(TMPDIR="$(swift_temporary)")
    [[ $1 != build ]] || variables+=(SWIFT_DETERMINISTIC_HASHING=1)
    env "${variables[@]}" swift "$@"
}
swiftc() { TMPDIR=$(swift_temporary) command swiftc "$@"; }

# stage NAME: ends the stage before it and begins this one.
stage() {
    end_stage ok
    stage_name=$1
    stage_began=$SECONDS
    printf '== %s\n' "$stage_name"
}

# end_stage RESULT: notes the time that the present stage took.
end_stage() {
    [[ -n $stage_name ]] || return 0
    stage_summary+=("$stage_name $1 $((SECONDS - stage_began))s")
    stage_name=
}

# descendants PID: the children of a process, with theirs.
descendants() {
    local child
    for child in $(pgrep -P "$1" || true); do
        printf '%s\n' "$child"
        descendants "$child"
    done
}

# stop STATUS: ends this script and the programs that it runs.
stop() {
    # Some of these processes have already ended, such as the one that lists them.
    # shellcheck disable=SC2046
    kill -TERM $(descendants $$) 2>/dev/null || true
    exit "$1"
}

# Without these, a shell that a signal ends runs its EXIT trap with the status of its last command, which may be 0.
trap 'stop 129' HUP
trap 'stop 130' INT
trap 'stop 143' TERM

# attend COMMAND...: runs a long command. If a signal ends this script alone, the command ends too. Bash would delay the trap
# until a command in the foreground has ended.
attend() {
    "$@" &
    wait "$!"
}

# Meant for an EXIT trap: what ran, how it ended and how long it took, on one line.
print_summary() {
    local status=$1 title=$2 line part end=FAILED
    case $status in 129 | 130 | 143) end=STOPPED ;; esac
    if ((status == 0)); then end_stage ok; else end_stage "$end"; fi
    line=
    for part in "${stage_summary[@]}"; do line+="${line:+, }$part"; done
    if ((status == 0)); then
        printf '%s: passed in %ss (%s)\n' "$title" "$SECONDS" "$line"
    else
        printf '%s: %s with status %s after %ss (%s)\n' "$title" "$end" "$status" "$SECONDS" "$line"
    fi
}

# build_quietly ARGUMENT...: swift build, of which only the last line is shown, or the errors.
build_quietly() {
    local log status=0
    log=$(mktemp)
    attend swift build "$@" </dev/null >"$log" 2>&1 || status=$?
    if ((status == 0)); then
        tail -n 1 "$log"
    else
        grep -E '^((/|macro )[^|]*: )?(error|warning):' "$log" | sort -u | head -n 60 || true
        tail -n 5 "$log"
    fi
    rm -f "$log"
    return "$status"
}

# project_files: every file that is, or is about to be, part of the project, each followed by a zero byte. A source archive has
# no repository: there it is every file but those that builds make.
project_files() {
    local file
    if [[ -e .git ]]; then
        git ls-files -z --cached --others --exclude-standard
    else
        find . \( -name '.build*' -o -path ./Fuzz/corpus -o -path ./Fuzz/artifacts -o -path ./docs/generated \
            -o -name Package.resolved \) -prune -o -type f -print0
    fi | while IFS= read -r -d '' file; do
        [[ ! -f $file ]] || printf '%s\0' "${file#./}"
    done
}
