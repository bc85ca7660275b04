// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// Parts of the output of perf 6.1 on Linux 6.18, recorded during a transfer. Stacks are shortened.
enum Recording {
    /// The output of `perf script -F comm,pid,period,ip,sym,dso`.
    static let samples = """
        culvert-lane    29    1001001 
        \t          21ab0b chacha20_poly1305_seal_scatter (/opt/culvert/culvert-wg)
        \t          252eed CCryptoBoringSSL_EVP_AEAD_CTX_seal_scatter (/opt/culvert/culvert-wg)
        \t          3a85c8 $s8TunnelIO8LaneCoreC14moveFromDeviceSiyAA0A7IOErrorVYKF (/opt/culvert/culvert-wg)

        culvert-lane    29    1001001 
        \tffffffff820426f9 udp_send_skb ([kernel.kallsyms])
        \tffffffff82046f66 udp_sendmsg ([kernel.kallsyms])
        \tffffffff81e32014 __sys_sendmmsg ([kernel.kallsyms])
        \tffffffff81e3215d __x64_sys_sendmmsg ([kernel.kallsyms])
        \tffffffff821ef691 do_syscall_64 ([kernel.kallsyms])
        \tffffffff81000130 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
        \t          10b106 __sendmmsg (/usr/lib/x86_64-linux-gnu/libc.so.6)

        culvert-lane    38    1001001 
        \tffffffff82203958 _raw_spin_unlock_irqrestore ([kernel.kallsyms])
        \tffffffff813b0c4e try_to_wake_up ([kernel.kallsyms])
        \tffffffff81e3b2f5 sock_def_readable ([kernel.kallsyms])
        \tffffffff81db7228 tun_get_user ([kernel.kallsyms])
        \tffffffff81db80b7 tun_chr_write_iter ([kernel.kallsyms])
        \tffffffff816bb9d6 do_writev ([kernel.kallsyms])
        \tffffffff821ef691 do_syscall_64 ([kernel.kallsyms])
        \tffffffff81000130 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])

        iperf3    50    1001001 
        \tffffffff81db1289 tun_net_xmit ([kernel.kallsyms])
        \tffffffff82029b4d tcp_write_xmit ([kernel.kallsyms])
        \tffffffff81420da8 hrtimer_run_softirq ([kernel.kallsyms])
        \tffffffff8136213d handle_softirqs ([kernel.kallsyms])
        \tffffffff8136238e __irq_exit_rcu ([kernel.kallsyms])
        \tffffffff81000e06 asm_sysvec_apic_timer_interrupt ([kernel.kallsyms])
        \t           1a2f4 iperf_tcp_send (/usr/lib/x86_64-linux-gnu/libiperf.so.0.0.0)

        swapper     0    1001001 
        \tffffffff821f4dab pv_native_safe_halt ([kernel.kallsyms])
        \tffffffff821f68b5 default_idle ([kernel.kallsyms])
        \tffffffff813c59a6 do_idle ([kernel.kallsyms])
        \tffffffff813c5ca5 cpu_startup_entry ([kernel.kallsyms])

        swapper     0    1001001 
        \tffffffff820353d6 tcp_v4_early_demux ([kernel.kallsyms])
        \tffffffff8136213d handle_softirqs ([kernel.kallsyms])
        \tffffffff81362700 run_ksoftirqd ([kernel.kallsyms])
        \tffffffff81390f2f kthread ([kernel.kallsyms])
        \tffffffff812a1b54 ret_from_fork ([kernel.kallsyms])

        iperf3    47    1001001 
        \tffffffff81b6c5e0 _copy_to_iter ([kernel.kallsyms])
        \tffffffff82010783 tcp_recvmsg_locked ([kernel.kallsyms])
        \tffffffff816bb886 ksys_read ([kernel.kallsyms])
        \tffffffff821ef691 do_syscall_64 ([kernel.kallsyms])
        \tffffffff81000130 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])

        perf    60    1001001 


        """

    /// The output of `perf script --show-lost-events -F trace:comm,pid,event,trace`.
    static let events = """
                  iperf3    50       net:net_dev_start_xmit: dev=cb7xa queue_mapping=0 skbaddr=0xffff888100c5bce0 \
        vlan_tagged=0 vlan_proto=0x0000 vlan_tci=0x0000 protocol=0x0800 ip_summed=3 len=64348 data_len=64296 \
        network_offset=0 transport_offset_valid=1 transport_offset=20 tx_flags=0 gso_size=1368 gso_segs=47 gso_type=0x1
                 swapper     0           sched:sched_wakeup: comm=perf pid=7985 prio=120 target_cpu=001
            culvert-lane    38   syscalls:sys_exit_recvmmsg: 0x2
            culvert-lane    38   syscalls:sys_exit_recvmmsg: 0xfffffffffffffff5
            culvert-lane    38 syscalls:sys_exit_epoll_wait: 0x2
            culvert-lane    38 PERF_RECORD_LOST lost 13
            culvert-lane    29            irq:softirq_entry: vec=8 [action=HRTIMER]
            culvert-lane    29            irq:softirq_entry: vec=3 [action=NET_RX]
            culvert-lane    38           sched:sched_switch: prev_comm=culvert-lane prev_pid=7968 prev_prio=120 \
        prev_state=R ==> next_comm=iperf3 next_pid=7976 next_prio=120
            culvert-lane    29           sched:sched_switch: prev_comm=culvert-lane prev_pid=7960 prev_prio=120 \
        prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
                 swapper     0           sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
        prev_state=R ==> next_comm=culvert-lane next_pid=7960 next_prio=120
            culvert-lane    38 PERF_RECORD_LOST lost 64
            culvert-lane    38  net:netif_receive_skb_entry: dev=cb7xb napi_id=0 queue_mapping=1 \
        skbaddr=0xffff8881a4bae500 vlan_tagged=0 vlan_proto=0x0000 vlan_tci=0x0000 protocol=0x0800 ip_summed=3 \
        hash=0x00000000 l4_hash=0 len=5524 data_len=5472 truesize=9024 mac_header_valid=1 mac_header=0 nr_frags=1 \
        gso_size=1368 gso_type=0x3
            culvert-lane    38       net:net_dev_start_xmit: dev=under queue_mapping=0 skbaddr=0xffff88820842d100 \
        vlan_tagged=0 vlan_proto=0x0000 vlan_tci=0x0000 protocol=0x0800 ip_summed=3 len=810 data_len=768 \
        network_offset=14 transport_offset_valid=1 transport_offset=34 tx_flags=0 gso_size=96 gso_segs=8 gso_type=0

        """
}
