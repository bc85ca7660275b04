# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 The Culvert Authors
#
# Sourced by `dev/check layering [PROGRAM]`: the laws of docs/ARCHITECTURE.md that the compiler does not enforce. With a program,
# also checks what that program links.

problems=0
attributes='^[[:space:]]*((@[A-Za-z_]+(\([^)]*\))?|public|package|internal|private|fileprivate)[[:space:]]+)*'

# report MESSAGE: reads `file:line:text` and counts each line as a broken law.
report() {
    local line
    while IFS= read -r line; do
        printf '%s  [%s]\n' "$line" "$1"
        problems=$((problems + 1))
    done
}

# code PATTERN PATH...: matching lines of Swift files, without those that are comments. What a tutorial shows is no code of
# the target whose documentation it is in.
code() {
    local pattern=$1
    shift
    grep -rnE --include='*.swift' --exclude-dir='*.docc' -e "$pattern" "$@" 2>/dev/null | grep -vE '^[^:]+:[0-9]+:[[:space:]]*//' || true
}

# may_not_import FOLDERS MODULES REASON
may_not_import() {
    local folders=() folder
    for folder in $1; do if [[ -d $folder ]]; then folders+=("$folder"); fi; done
    ((${#folders[@]} > 0)) || return 0
    report "$3" < <(
        code "${attributes}import[[:space:]]+((struct|class|enum|protocol|func|var|let|typealias)[[:space:]]+)?($2)([^A-Za-z0-9_]|\$)" "${folders[@]}"
    )
}

# may_only_import FOLDER MODULES REASON: these, the C library on Apple's platforms and what comes with the language.
may_only_import() {
    report "$3" < <(
        code "${attributes}import[[:space:]]" "$1" |
            grep -vE "import[[:space:]]+($2|Darwin|MachO|Synchronization)\$" || true
    )
}

servers='NIO[A-Za-z0-9]*|Hummingbird[A-Za-z]*|GRDB|ArgumentParser'
may_not_import Sources/NetworkAddresses '[A-Za-z_]+' 'addresses are values, and import nothing'
may_not_import Sources/WireGuardCore \
    "TunnelIO|CTunnelSystem|WireGuardDevice|PacketTunnelTesting|Foundation|Dispatch|$servers" \
    'the core knows no I/O and no Foundation'
may_only_import Sources/TunnelSystem 'CTunnelSystem|NetworkAddresses' 'what all share rests on the system alone'
may_not_import Sources/TunnelIO \
    "WireGuardCore|WireGuardDevice|PacketTunnelTesting|Crypto|Foundation|FoundationEssentials|$servers" \
    'TunnelIO knows no protocol and no Foundation'
may_not_import 'Sources/WireGuardDevice Sources/culvert-wg' "Foundation|$servers" \
    'what the daemon links holds no Foundation and no server code'
may_not_import 'Sources/PacketTunnel Sources/PacketTunnelLinux Sources/PacketTunnelApple' \
    "WireGuardCore|WireGuardDevice|WireGuardTunnel|PacketTunnelTesting|Crypto|$servers" \
    'a tunnel is any tunnel'
may_not_import Sources/WireGuardTunnel "PacketTunnelTesting|Crypto|$servers" 'a provider stays small'
may_not_import Sources/Provisioning "TunnelIO|CTunnelSystem|PacketTunnelLinux|PacketTunnelApple|PacketTunnelTesting|$servers" \
    'whoever asks for a tunnel brings neither a host nor a server'
may_not_import Sources/CredentialTunnel "CTunnelSystem|PacketTunnelTesting|Crypto|Dispatch|$servers" \
    'the login tunnel is values: it calls no system function'
may_not_import Sources/TrustPinning \
    "WireGuardCore|TunnelIO|WireGuardDevice|PacketTunnel|PacketTunnelTesting|TrustPinningNIO|$servers" \
    'what judges servers is small and knows no connections'
may_not_import 'Sources/TrustPinningNIO Sources/TrustPinningFoundation' \
    'WireGuardCore|TunnelIO|WireGuardDevice|PacketTunnel|PacketTunnelTesting|Hummingbird[A-Za-z]*|GRDB|ArgumentParser' \
    'pinning knows no tunnel'
may_not_import Sources/TunnelServer \
    "WireGuardCore|WireGuardDevice|WireGuardTunnel|CredentialTunnel|PacketTunnel|PacketTunnelTesting|Crypto|Foundation|$servers" \
    "a server's part of the host knows no protocol"
may_only_import Sources/PasswordHashing 'Crypto|CryptoExtras|FoundationEssentials|Foundation' 'a hash knows no users'
may_not_import Sources/Gateway \
    "PacketTunnelTesting|PacketTunnelApple|WireGuardTunnel|PinnedProvisioning|TrustPinningFoundation|CommandLineSupport|ArgumentParser" \
    'a gateway is no client, and has no command line'
# A store for a fleet takes the place of the one with SQLite: nothing else knows that there is one.
report 'only Sources/Gateway/Store/SQLite knows the database' < <(
    code "${attributes}import[[:space:]]+GRDB([^A-Za-z0-9_]|\$)" Sources | grep -v '^Sources/Gateway/Store/SQLite/' || true
)
may_not_import Sources/CulvertC "PacketTunnel|WireGuardTunnel|Foundation|$servers" 'what C programs link stays small'
may_not_import Sources/PinnedProvisioning \
    "WireGuardCore|TunnelIO|CTunnelSystem|WireGuardDevice|WireGuardTunnel|PacketTunnelLinux|PacketTunnelApple|PacketTunnelTesting|Hummingbird[A-Za-z]*|GRDB|ArgumentParser" \
    'the transport knows requests, and no tunnel'
may_only_import Sources/ProvisioningApple 'PacketTunnelApple|PinnedProvisioning|Provisioning' \
    'a ready-made extension is only a combination'
may_not_import Sources/culvert-enroll \
    "Foundation|TunnelIO|WireGuardDevice|WireGuardTunnel|PacketTunnelLinux|TunnelServer|Gateway|TrustPinning[A-Za-z]*|${servers/|ArgumentParser/}" \
    'who enrols runs no tunnel and no server'
may_not_import Sources/culvert "Foundation|PinnedProvisioning|TrustPinning|TrustPinningNIO|TrustPinningFoundation|X509|SwiftASN1|${servers/|ArgumentParser/}" \
    'what brings TLS is a program of its own, which culvert runs'
may_not_import 'Sources/culvert-pin Sources/CommandLineSupport' \
    'Foundation|WireGuardCore|TunnelIO|WireGuardDevice|PacketTunnel|WireGuardTunnel|Hummingbird[A-Za-z]*|GRDB' \
    'pinning knows no tunnel'
may_not_import Sources 'XCTest|Testing' 'test frameworks stay in Tests'
may_not_import Sources 'Glibc|Musl|Android' 'the C library is imported by one name, CTunnelSystem'

report 'NetworkExtension has its own target' < <(
    code "${attributes}import[[:space:]]+NetworkExtension" Sources | grep -v '^Sources/PacketTunnelApple/' || true
)

# A gate around a whole file, near its top, is how platform code is kept apart; deeper ones hide it.
report '#if os(...) only around a whole file' < <(
    code '^[[:space:]]*#(if|elseif)[^/]*[^A-Za-z]os\(' Sources |
        awk -F: '$2 > 8' || true
)
report '#if for a platform inside a declaration; use a +Linux and a +Darwin file' < <(
    find Sources -name '*.swift' -exec awk '
        /^[[:space:]]+#(if|elseif).*canImport\((Glibc|Musl|Darwin|Android|Bionic)\)/ { gate = FNR ":" $0; next }
        gate != "" && !/^[[:space:]]*((public|package|internal|private|@[a-z_]+) +)*import / { print FILENAME ":" gate }
        { gate = "" }
    ' {} + || true
)

# A comparison compiles without an answer for a new policy, and then lets packets out. Only the policy's own files, and the names on
# the command line, mention its cases in a comparison or a pattern.
policies='\.(routeBased|enforcedRoutes|enforced|everything)\b'
report 'ask the leak policy a question (LeakPolicy+Questions.swift) instead of comparing it with a case' < <(
    code "([!=~]=|\bcase)[[:space:]]*([(][^)]*)?(LeakPolicy)?$policies|$policies[[:space:]]*[!=~]=" Sources Examples Benchmarks |
        grep -vE '^Sources/(PacketTunnel/Settings/LeakPolicy(\+Questions)?|culvert/Tunnel/Profile/LeakPolicyName)\.swift:' || true
)

# The compiler gives no warning: it ignores @inlinable in such a type, and generic code then stays generic.
report 'a package type with @inlinable members is @usableFromInline' < <(
    find Sources -name '*.swift' -exec awk '
        FNR == 1 { above = type = "" }
        /^ *(@[A-Za-z]+ )*package (final )?(class|struct|enum|actor|protocol) / {
            type = above $0 ~ /@usableFromInline/ ? "" : FILENAME ":" FNR ":" $0
        }
        /^(    )?}/ { type = "" }
        /@inlinable/ && type != "" { print type; type = "" }
        # The attributes on the lines above a declaration.
        { above = /^ *@[A-Za-z]+$/ ? above $0 : "" }
    ' {} + || true
)

report 'a crash is not an answer' < <(code '(^|[^A-Za-z_])(try!|fatalError\()' Sources)
report 'a crash is not an answer' < <(code '[[:space:]]as![[:space:]]' Sources)
report 'an open question goes to the issue tracker' < <(
    grep -rnE --include='*.swift' --include='*.c' --include='*.h' '(TODO|FIXME|XXX|HACK)([^A-Za-z]|$)' Sources Tests || true
)
report 'libraries do not print' < <(
    code '(^|[^A-Za-z_.])(print|debugPrint|dump|NSLog)\(' Sources/NetworkAddresses Sources/WireGuardCore Sources/TunnelIO \
        Sources/WireGuardDevice
)

if (($# > 0)); then
    program=$1
    [[ -f $program ]] || fail "$program: no such program"
    # Module names are mangled with their length in front, so 10Foundation is not 20FoundationEssentials.
    symbols=$(mktemp)
    trap 'rm -f "$symbols"' EXIT
    nm "$program" >"$symbols" 2>/dev/null || true
    [[ -s $symbols ]] || nm -D "$program" >"$symbols" 2>/dev/null || true
    [[ -s $symbols ]] || fail "$program: no symbols; check it before it is stripped"
    modules='10Foundation|29FoundationInternationalization|17FoundationNetworking|7NIOCore|6NIOSSL|4X509|9SwiftASN1'
    [[ ${program##*/} != culvert-wg ]] || modules+='|14ArgumentParser'
    report 'links too much' < <(
        grep -oE "[[:space:]]_?\\\$s($modules)" "$symbols" | tr -d '[:space:]' | sort | uniq -c |
            awk -v program="$program" '{ print program ": " $1 " symbols beginning with " $2 }' || true
    )
    # The linker ignores a pattern without a function.
    if [[ ${program##*/} == culvert-wg ]] && grep -q 8TunnelIO "$symbols"; then
        report 'dev/packet-path.ld: no function of the program has this name' < <(
            grep -oE '\.text\.[^ )]*[A-Za-z0-9_][^ )]*' dev/packet-path.ld | grep -vxF .text.packets | sed 's/^\.text\.//' |
                while read -r pattern; do
                    grep -qE " [tTwW] ${pattern//'*'/.*}\$" "$symbols" || printf '%s\n' "$pattern"
                done
        )
    fi
    report 'links too much' < <(
        ldd "$program" 2>/dev/null | grep -E 'libFoundation(Internationalization|Networking|XML)?\.so|_FoundationICU|libcurl|libxml2' |
            sed "s|^[[:space:]]*|$program: |" || true
    )
fi

((problems == 0)) || fail "$problems broken laws"
