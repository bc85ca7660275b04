// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@Suite("Output of perf")
struct PerfScriptTests {
    @Test("A sample has its process, its time and its stack")
    func samples() throws {
        let samples = try PerfScript.samples(Recording.samples)
        #expect(samples.map(\.process) == [29, 29, 38, 50, 0, 0, 47, 60])
        #expect(samples.map(\.command).allSatisfy { !$0.isEmpty })
        #expect(samples.allSatisfy { $0.nanoseconds == 1_001_001 })
        #expect(samples[0].frames.first?.symbol == "chacha20_poly1305_seal_scatter")
        #expect(samples[0].frames.first?.object == "/opt/culvert/culvert-wg")
        #expect(samples[0].frames.first?.isKernel == false)
        let kernel = samples[1].frames.prefix { $0.isKernel }
        #expect(kernel.first?.symbol == "udp_send_skb")
        #expect(kernel.last?.symbol == "entry_SYSCALL_64_after_hwframe")
        #expect(samples[1].frames.count == kernel.count + 1)
    }

    @Test("A command with a space and a symbol with parentheses are read")
    func spaces() throws {
        let sample = try #require(
            try PerfScript.samples(
                "kworker/u8:3 net 7    1001001 \n\t          1f main.(*Queue) push (/usr/bin/some program)\n"
            ).first)
        #expect(sample.command == "kworker/u8:3 net")
        #expect(
            sample.frames == [.init(symbol: "main.(*Queue) push", object: "/usr/bin/some program", isKernel: false)])
    }

    @Test("A line of another form is an error", arguments: ["perf: no data", "\tffff main (x)", "a 1 2\n\tmain\n"])
    func malformedSamples(text: String) {
        #expect(throws: BenchmarkError.self) { try PerfScript.samples(text) }
    }

    @Test("An event has its process, its name and its fields")
    func events() throws {
        let (events, lost) = try PerfScript.events(Recording.events)
        #expect(lost == 77)
        #expect(events.count == 12)
        #expect(events[0].process == 50)
        #expect(events[0].name == "net:net_dev_start_xmit")
        #expect(events[0].field("dev") == "cb7xa")
        #expect(events[0].field("len") == "64348")
        #expect(events[0].field("gso_segs") == "47")
        #expect(events[0].field("length") == nil)
        #expect(events[2].command == "culvert-lane")
        #expect(throws: BenchmarkError.self) { try PerfScript.events("culvert-lane 29 nothing\n") }
    }

    @Test("Counters that the machine lacks have no value")
    func counters() {
        let text = """
            # started on Fri Nov 27 10:00:00 2026

            <not supported>,,cycles,0,100.00,,
            4391417,,instructions:u,4391417,100.00,3.586,insn per cycle
            """
        #expect(PerfScript.counters(text) == ["instructions": 4_391_417])
    }
}
