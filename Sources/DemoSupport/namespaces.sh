#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 The Culvert Authors
#
# The demonstrations in network namespaces, with the programs that people use. The programs contain this script
# (Package.swift) and run it: `culvert demo --tun` and `culvert gateway demo --tun`.
#
#   namespaces.sh tunnel|gateway FOLDER SECONDS
#
# FOLDER has the programs; each bulk transfer takes SECONDS. Needs root, ip, ping and timeout; uses iperf3 and wg if they are
# installed. SIGTERM ends the script, and so does the end of the process that reads its reports. However it ends, it removes
# everything that it made. Each program that it waits for has a time limit.
#
# Reports to descriptor 9, one line each, words separated by tabs. {time} in a text is the time since begin or clock. FIGURE is a
# member of the document, LINE a closing line.
#   title TEXT | begin STEP | finish TEXT | fail TEXT | clock [SECONDS-FROM-NOW]
#   pings FIGURE SENT ANSWERED [MINIMUM MEAN MAXIMUM]    milliseconds; ends the step
#   transfer FIGURE LINE MBITS [SEGMENTS-SENT-AGAIN]     ends the step
#   without FIGURE WHY                                   the step was left out; ends it. The figure is null then
#   traffic FIGURE BYTES-SENT BYTES-RECEIVED | figure FIGURE NUMBER | summary LINE TEXT
set -u
umask 077
scene=$1 programs=$2 seconds=$3
export LC_ALL=C PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The names of this run: namespaces, and interfaces of at most 15 characters.
a=cvd$$a b=cvd$$b c=cvd$$c
made='' up='' gateway='' iperf='' ending='' step='' status=1
# The seconds that a program may take.
limit=30
folder=$(mktemp -d) || exit
export CULVERT_RUNTIME_DIRECTORY="$folder/tunnels"
: >"$folder/output"

# In a subshell, for the separator and for SIGPIPE: without a reader the script ends.
say() {
    (IFS='	' && printf '%s\n' "$*" >&9) 2>/dev/null || [ -n "$ending" ] || exit 1
}
begin() {
    step=$1
    say begin "$1"
}
die() {
    say fail "$*"
    exit 1
}
# bounded PROGRAM...: runs a program, at most $limit seconds; its output is in $folder/output. A signal for the script's process
# group is for the program too, except for the programs of the removal.
bounded() {
    if [ -n "$ending" ]; then group=; else group=--foreground; fi
    timeout ${group:+"$group"} --kill-after=5 "$limit" "$@" >"$folder/output" 2>&1 9>&-
    result=$?
    # 137: SIGTERM did not end it.
    case $result in
    124 | 137) [ -n "$ending" ] || die "the step '$step' was not over after $limit s: $*" ;;
    esac
    return "$result"
}
# run PROGRAM...: the same; a failure ends the demonstration.
run() { bounded "$@" || die "$*: $(tail -n 3 "$folder/output" | tr '\n\t' '  ')"; }
# in_space NAMESPACE PROGRAM...: the same, in a namespace.
in_space() { run ip netns exec "$@"; }

# shellcheck disable=SC2329  # called by the trap
clean_up() {
    trap '' TERM INT HUP PIPE
    ending=yes problems='' limit=30
    begin removal
    for name in $up; do
        bounded ip netns exec "${name%:*}" "$programs/culvert" down "${name#*:}"
        # 3: it was not up yet.
        case $? in 0 | 3) ;; *) problems="$problems culvert down ${name#*:}," ;; esac
    done
    if [ -n "$gateway" ]; then
        kill "$gateway" 2>/dev/null
        attempts=0
        while kill -0 "$gateway" 2>/dev/null && [ "$attempts" -lt 200 ]; do
            attempts=$((attempts + 1))
            sleep 0.1
        done
    fi
    for process in $gateway $iperf; do kill -KILL "$process" 2>/dev/null; done
    wait
    for name in $made; do
        [ -e "/run/netns/$name" ] || continue
        # A program that did not end would keep its namespace.
        for process in $(ip netns pids "$name" 2>/dev/null); do kill -KILL "$process" 2>/dev/null; done
        bounded ip netns delete "$name" || problems="$problems ip netns delete $name,"
    done
    rm -rf "$folder"
    if [ -n "$problems" ]; then
        say fail "failed:${problems%,}"
        status=1
    else
        say finish 'programs, interfaces and namespaces are gone'
    fi
    exit "$status"
}
trap clean_up EXIT
trap 'say fail interrupted; status=130; exit' TERM INT HUP

# make_spaces NAMESPACE...
make_spaces() {
    for name in "$@"; do
        [ ! -e "/run/netns/$name" ] || die "the namespace $name exists already"
        made="$made $name"
        run ip netns add "$name"
        run ip -n "$name" link set lo up
    done
}
# cable NAMESPACE LINK NAMESPACE LINK: joins two namespaces.
cable() { run ip link add "$2" netns "$1" type veth peer name "$4" netns "$3"; }
# find_programs NAME...
find_programs() {
    for name in "$@"; do
        [ -x "$programs/$name" ] || die "$name is not in $programs: 'make build' builds all programs"
    done
}
# address NAMESPACE LINK ADDRESS...: gives addresses to a link, and sets it up.
address() {
    space=$1 link=$2
    shift 2
    run ip -n "$space" link set "$link" up
    for one in "$@"; do
        case $one in *:*) nodad=nodad ;; *) nodad= ;; esac
        run ip -n "$space" address add "$one" dev "$link" $nodad
    done
}
# bring_up NAMESPACE TUNNEL ARGUMENT...: culvert up, without the name servers, which are the machine's.
bring_up() {
    space=$1 tunnel=$2
    shift 2
    up="$space:$tunnel $up"
    in_space "$space" "$programs/culvert" up "$@" --no-dns
}
# The figures of `ping -q`: sent, answered, and the three times; nothing if standard input is something else.
ping_figures() {
    awk -v OFS='\t' '
        /packets transmitted/ { sent = $1; answered = $4 }
        /min\/avg\/max/ { split($4, time, "/") }
        END { if (sent != "") print sent, answered, time[1], time[2], time[3] }'
}
# The figures of `iperf3 -f m`: the rate at the receiver, and the segments sent again, if it prints them.
transfer_figures() {
    awk -v OFS='\t' '
        { for (i = 2; i <= NF; i++) if ($i == "Mbits/sec") { if ($NF == "receiver") rate = $(i - 1)
            if ($NF == "sender" && i + 2 == NF) again = $(i + 1) } }
        END { if (rate != "") print rate, again }'
}
# measure COUNT ADDRESS [SECONDS]: pings from $a, each of which waits for SECONDS (1); sets $figures.
measure() {
    bounded ip netns exec "$a" ping -n -q -c "$1" -i 0.02 -W "${3-1}" "$2"
    figures=$(ping_figures <"$folder/output")
    [ -n "$figures" ] || die "ping: $(tail -n 1 "$folder/output")"
    [ "$(echo "$figures" | cut -f 2)" -gt 0 ] || die "none of the $1 pings was answered"
}
# pings STEP FIGURE COUNT ADDRESS [SECONDS]: a step.
pings() {
    begin "$1"
    measure "$3" "$4" "${5-1}"
    say pings "$2" "$figures"
}
# is_answered ADDRESS SECONDS: one ping from $a.
is_answered() { bounded ip netns exec "$a" ping -n -q -c 1 -W "$2" "$1"; }
# wait_until WHAT COMMAND...: repeats the command until it succeeds, at most 200 times, with a pause of 0.1 s.
wait_until() {
    what=$1 attempts=0
    shift
    until "$@"; do
        attempts=$((attempts + 1))
        [ "$attempts" -lt 200 ] || die "the step '$step' was not over in time: $what"
        sleep 0.1
    done
}
stop_iperf() {
    { kill -KILL "$iperf"; wait "$iperf"; } 2>/dev/null
    iperf=''
}
# transfer STEP LINE NAMESPACE ADDRESS [OPTION...]: iperf3 from $a to a server in the namespace.
transfer() {
    begin "$1"
    name=$1 line=$2 space=$3 server=$4
    shift 4
    : >"$folder/server"
    ip netns exec "$space" iperf3 --server --one-off --forceflush >"$folder/server" 2>&1 9>&- &
    iperf=$! attempts=0
    until grep -q listening "$folder/server"; do
        attempts=$((attempts + 1))
        if ! kill -0 "$iperf" 2>/dev/null || [ "$attempts" -ge 50 ]; then
            stop_iperf
            return 1
        fi
        sleep 0.1
    done
    limit=$((seconds + 15))
    in_space "$a" iperf3 --client "$server" --time "$seconds" --format m "$@"
    limit=30
    stop_iperf
    figures=$(transfer_figures <"$folder/output")
    [ -n "$figures" ] || die "iperf3: $(tail -n 1 "$folder/output")"
    say transfer "iperf3.$name" "$line" "$figures"
}
# transfers LINE LINE NAMESPACE ADDRESS: both ways, each with its closing line.
transfers() {
    if ! transfer upload "$1" "$3" "$4"; then
        say without iperf3 'iperf3 is not installed, or does not start'
    elif ! transfer download "$2" "$3" "$4" --reverse; then
        say without iperf3.download 'iperf3 does not start'
    fi
}

# Two ends of a WireGuard tunnel: $a is the client, $b the server.
tunnel_scene() {
    say title 'Two culvert tunnels in two network namespaces (MTU 1420)'
    begin namespaces
    find_programs culvert
    make_spaces "$a" "$b"
    cable "$a" eth0 "$b" eth0
    address "$a" eth0 192.0.2.2/24
    address "$b" eth0 192.0.2.1/24
    say finish "$a and $b, joined by a veth pair"

    begin tunnels
    for end in "$a" "$b"; do
        run "$programs/culvert" key generate
        cat "$folder/output" >"$folder/$end.key"
        run sh -c 'exec "$1" key public <"$2" 2>/dev/null' sh "$programs/culvert" "$folder/$end.key"
        cat "$folder/output" >"$folder/$end.public"
    done
    # configuration END PEER NUMBER PEER'S-NUMBER LINE-OF-PEER [LINE-OF-INTERFACE]
    configuration() {
        cat >"$folder/$1.conf" <<END
[Interface]
PrivateKey = $(cat "$folder/$1.key")
Address = 10.77.0.$3/32, fd77::$3/128
MTU = 1420
${6-}

[Peer]
PublicKey = $(cat "$folder/$2.public")
AllowedIPs = 10.77.0.$4/32, fd77::$4/128
$5
END
    }
    configuration "$b" "$a" 1 2 '' 'ListenPort = 51820'
    configuration "$a" "$b" 2 1 'Endpoint = 192.0.2.1:51820'
    bring_up "$b" "$b" "$folder/$b.conf"
    say finish "client $(cat "$folder/$a.public"), server $(cat "$folder/$b.public")"

    begin handshake
    bring_up "$a" "$a" "$folder/$a.conf"
    say summary 'culvert up, handshake' '{time}'
    say finish 'culvert up, with the answer of the server, in {time}'
    pings 'first ping' firstPing 1 10.77.0.1 7
    pings 'ping IPv4' ping.ipv4 50 10.77.0.1
    pings 'ping IPv6' ping.ipv6 50 fd77::1
    transfers 'client to server' 'server to client' "$b" 10.77.0.1

    begin roaming
    if command -v wg >/dev/null; then
        of_peer "$b" lastHandshakeSeconds
        before=$value
        in_space "$a" wg set "$a" listen-port 40000
        measure 10 10.77.0.1
        of_peer "$b" lastHandshakeSeconds
        # A handshake since the move would be younger.
        is_not_younger "$before" "$value" ||
            die "the session did not survive the move: the handshake's age was '$before' s before, and '$value' s after"
        by='wg set' session='no new handshake'
    else
        # It asks for another session by itself.
        configuration "$a" "$b" 2 1 'Endpoint = 192.0.2.1:51820' 'ListenPort = 40000'
        in_space "$a" "$programs/culvert" reload "$a"
        measure 10 10.77.0.1
        by='culvert reload' session='with a new handshake (wg is not installed)'
    fi
    of_peer "$b" endpoint
    [ "$value" = 192.0.2.2:40000 ] || die "the server sends to $value, but the client moved to port 40000"
    say figure roaming.newPort 40000
    answered=$(echo "$figures" | cut -f 2)
    say finish "client moved to port 40000 by $by, the server followed, $session; $answered of 10 pings answered"
    of_peer "$a" sentBytes
    sent=$value
    of_peer "$a" receivedBytes
    say traffic client "$sent" "$value"
}
# of_peer END MEMBER: sets $value to a member of the end's only peer, as `culvert status` has it.
of_peer() {
    in_space "$1" "$programs/culvert" status "$1" --json
    value=$(tr -d '\n' <"$folder/output" |
        sed -n 's/.*"peers": *\[\([^]]*\]\)*[^]]*"'"$2"'": *"\{0,1\}\([^",} ]*\).*/\2/p')
}
# is_not_younger AGE AGE: whether both are numbers, and the second is not the smaller one.
is_not_younger() {
    awk -v before="$1" -v after="$2" \
        'BEGIN { number = "^[0-9]+([.][0-9]+)?$"; exit !(before ~ number && after ~ number && after + 0 >= before + 0) }'
}

# $a is a device of the gateway $b. The server $c knows no route to the device: it answers the address of the gateway.
gateway_scene() {
    admin() {
        verb=$1
        shift
        run "$programs/culvert-gateway" $verb "$@" --socket "$folder/run/admin.sock"
    }
    not_answered() { ! is_answered "$@"; }
    say title 'A gateway, a device and a server in three network namespaces'
    begin namespaces
    find_programs culvert culvert-enroll culvert-gateway
    make_spaces "$a" "$b" "$c"
    cable "$a" eth0 "$b" eth0
    cable "$b" eth1 "$c" eth0
    address "$a" eth0 192.0.2.2/24
    address "$b" eth0 192.0.2.1/24
    address "$b" eth1 203.0.113.1/24 2001:db8:7::1/64
    address "$c" eth0 203.0.113.7/24 2001:db8:7::7/64
    run ip -n "$a" route add default via 192.0.2.1
    say finish "$a, $b and $c, which knows no way back to the device"

    begin gateway
    run "$programs/culvert-gateway" init 192.0.2.1 --label demo --address6 fd66::1/64 --directory "$folder/gateway" \
        --backup-key "$folder/backup.key"
    sed 's|"/run/culvert-gateway/admin.sock"|"'"$folder"'/run/admin.sock"|' \
        "$folder/gateway/gateway.json" >"$folder/changed" && cat "$folder/changed" >"$folder/gateway/gateway.json"
    ip netns exec "$b" "$programs/culvert-gateway" run --directory "$folder/gateway" --journal "$folder/journal" \
        >"$folder/log" 2>&1 9>&- &
    gateway=$!
    serves() {
        kill -0 "$gateway" 2>/dev/null || die "the gateway has ended: $(tail -n 1 "$folder/log")"
        grep -q 'serving ' "$folder/log"
    }
    wait_until 'the gateway serves' serves
    say finish 'culvert-gateway: device API on TCP port 8443, WireGuard on UDP port 51820'

    begin enrolment
    admin 'user add' anna
    admin invite anna --output "$folder/invitation"
    say clock
    in_space "$a" "$programs/culvert-enroll" device "$folder/invitation" --name office --directory "$folder/profiles"
    rm -f "$folder/invitation"
    say summary enrolment '{time}'
    say finish 'culvert enroll, by an invitation with two pins, in {time}'

    begin tunnel
    bring_up "$a" office office --directory "$folder/profiles"
    say finish 'culvert up, with all traffic in the tunnel, in {time}'
    pings 'ping IPv4' ping.ipv4 50 10.66.0.1
    pings 'ping IPv6' ping.ipv6 50 fd66::1

    begin NAT
    for server in 203.0.113.7 2001:db8:7::7; do
        is_answered "$server" 5 || die "$server does not answer"
    done
    say finish "203.0.113.7 and 2001:db8:7::7 answer, through the gateway's address"
    transfers 'upload, through NAT' 'download, through NAT' "$c" 203.0.113.7

    begin firewall
    admin 'rule add' deny --user anna --to 203.0.113.0/24
    wait_until 'a rule is in effect' not_answered 203.0.113.7 0.3
    admin 'rule add' allow --user anna --to 203.0.113.7/32 --first
    wait_until 'a rule before it is in effect' is_answered 203.0.113.7 1
    say finish "a rule of the user blocks the server's network, and one before it lets the server through"

    begin revoked
    admin 'peer list' --json
    id=$(tr -d '\n' <"$folder/output" | sed -n 's/.*"devices".*"id": *"\([a-z2-7]*\)".*/\1/p')
    [ -n "$id" ] || die 'the gateway knows no device'
    # The last ping waits for 0.2 s.
    say clock 0.2
    admin 'peer revoke' "$id"
    wait_until 'a revoked device is cut off' not_answered 10.66.0.1 0.2
    say summary 'revoked key cut off after' '{time}'
    say finish 'no packet passes {time} later'

    begin down
    in_space "$a" "$programs/culvert" down office
    up=
    say finish "culvert down: the device's network is as it was"
}

"${scene}_scene"
status=0
