import ApusHTTP2
import Testing

@Suite struct ConnectionTests {
    @Test(
        "D29 GOAWAY in the middle: above the last stream refused, below answered or lost"
    )
    func goAwayInTheMiddle() throws {
        let wire = try Wire()
        wire.settle()
        for tag: UInt64 in [1, 3, 5, 7, 9, 11] { _ = wire.submit(tag: tag) }
        wire.settle()
        _ = wire.events()
        let requests = wire.requests()
        #expect(requests.map(\.streamID) == [1, 3, 5, 7, 9, 11])

        wire.server.goAway(lastStreamID: 7, code: .noError, debug: Array(#"{"reason":"Shutdown"}"#.utf8))
        wire.settle()
        var events = wire.events()
        #expect(events.contains(.goAway(.noError, last: 7, debug: #"{"reason":"Shutdown"}"#)))
        #expect(Set(events).isSuperset(of: [.refused(9), .refused(11)]))
        #expect(events.count == 3)
        #expect(wire.submit(tag: 13) == .closed)
        #expect(!wire.isOpen)

        for id: Int32 in [1, 5, 7] { wire.server.respond(to: id, HTTP2Response(status: 200)) }
        wire.settle()
        events = wire.events()
        #expect(events == [.answered(1, status: 200), .answered(5, status: 200), .answered(7, status: 200)])
        wire.client.close(.transport("gone"))
        events = wire.events()
        #expect(events == [.reset(3, nil), .closed(.transport("gone"))])
    }

    @Test("D30 GOAWAY 0 with a reason hands the reason out and refuses all")
    func goAwayZero() throws {
        let wire = try Wire()
        wire.settle()
        _ = wire.submit(tag: 1)
        wire.settle()
        _ = wire.events()
        let reason = #"{"reason":"BadCertificateEnvironment"}"#
        wire.server.goAway(lastStreamID: 0, code: .noError, debug: Array(reason.utf8))
        wire.settle()
        let events = wire.events()
        #expect(Set(events) == [.goAway(.noError, last: 0, debug: reason), .refused(1), .closed(.goAway(.noError))])
        #expect(events.last == .closed(.goAway(.noError)))
    }

    @Test("a GOAWAY refuses what was submitted and had not left")
    func goAwayBeforeSending() throws {
        let wire = try Wire()
        wire.settle()
        _ = wire.events()
        _ = wire.submit(tag: 1)
        wire.settle()
        _ = wire.submit(tag: 2)
        wire.server.goAway(lastStreamID: 0x7fff_ffff, code: .noError)
        wire.serverSpeaks()
        wire.clientSpeaks()
        let events = wire.events()
        #expect(events.contains(.refused(2)))
        #expect(!events.contains(.refused(1)))
        wire.server.respond(to: 1, HTTP2Response(status: 200))
        wire.settle()
        #expect(wire.events() == [.answered(1, status: 200), .closed(.goAway(.noError))])
    }

    @Test("D31 REFUSED_STREAM is safe to resend, other resets are of unknown outcome")
    func refusedStream() throws {
        let wire = try Wire()
        wire.settle()
        _ = wire.events()
        for tag: UInt64 in 1...4 { _ = wire.submit(tag: tag) }
        wire.settle()
        wire.server.reset(1, code: .refusedStream)
        wire.server.reset(3, code: .internalError)
        wire.server.reset(5, code: .cancel)
        wire.server.reset(7, code: .noError)
        wire.settle()
        #expect(wire.events() == [.refused(1), .reset(2, .internalError), .reset(3, .cancel), .reset(4, .noError)])
        #expect(wire.inFlight == 0)
        #expect(wire.submit(tag: 1) == .submitted)
    }

    @Test("D32 one stream at connect, 1,000 after the first answer")
    func streamsUp() throws {
        let wire = try Wire(
            server: HTTP2ServerConfiguration(maxConcurrentStreams: 1, connectionWindow: 1_000_000)
        )
        wire.settle()
        #expect(wire.events() == [.settings(1)])
        #expect(wire.submit(tag: 1) == .submitted)
        #expect(wire.submit(tag: 2) == .full)
        wire.settle()
        #expect(wire.requests().count == 1)
        wire.server.respond(to: 1, HTTP2Response(status: 200))
        wire.server.updateSettings(maxConcurrentStreams: 1_000)
        wire.settle()
        let events = wire.events()
        #expect(Set(events) == [.answered(1, status: 200), .settings(1_000)])
        var taken = 0
        while wire.submit(tag: UInt64(taken + 2)) == .submitted { taken += 1 }
        #expect(taken == 1_000)
        wire.settle()
        #expect(wire.requests().count == 1_000)
        #expect(wire.serverStreamsMax == 1_000)
    }

    @Test(
        "D33 the limit falls from 1,000 to 1 in mid-flight: nothing new, nothing lost"
    )
    func streamsDown() throws {
        let wire = try Wire(server: HTTP2ServerConfiguration(connectionWindow: 1_000_000))
        wire.settle()
        _ = wire.events()
        for tag: UInt64 in 1...500 { _ = wire.submit(tag: tag) }
        wire.settle()
        // These are in our hands still when the limit falls: they wait there.
        for tag: UInt64 in 501...600 { _ = wire.submit(tag: tag) }
        wire.server.updateSettings(maxConcurrentStreams: 1)
        wire.serverSpeaks()
        wire.clientSpeaks()
        #expect(wire.events() == [.settings(1)])
        #expect(wire.submit(tag: 1_000) == .full)
        var open: [Int32] = wire.requests().map(\.streamID)
        #expect(open.count == 500)
        var answered: Set<UInt64> = []
        for _ in 0..<200 where answered.count < 600 {
            for id in open { wire.server.respond(to: id, HTTP2Response(status: 200)) }
            wire.settle()
            for end in wire.ends() {
                guard case .answered(let tag, 200) = end else {
                    Issue.record("\(end)")
                    continue
                }
                #expect(answered.insert(tag).inserted)
            }
            open = wire.requests().map(\.streamID)
            #expect(open.count <= 1)
        }
        #expect(answered.count == 600)
        #expect(wire.submit(tag: 1_000) == .submitted)
        #expect(wire.submit(tag: 1_001) == .full)
    }

    @Test("our own limit holds before and beyond the peer's")
    func ownLimit() throws {
        let wire = try Wire(
            client: HTTP2ClientConfiguration(streamsMax: 7, streamsMaxBeforeSettings: 3),
            server: HTTP2ServerConfiguration(maxConcurrentStreams: nil),
        )
        #expect(wire.streamsMax == 3)
        for tag: UInt64 in 1...3 { _ = wire.submit(tag: tag) }
        #expect(wire.submit(tag: 4) == .full)
        wire.settle()
        #expect(wire.streamsMax == 7)
        var taken = 3
        while wire.submit(tag: UInt64(taken + 1)) == .submitted { taken += 1 }
        #expect(taken == 7)
    }

    @Test("a limit of zero streams stops all, is seen with its time, and is survived")
    func zeroStreams() throws {
        let wire = try Wire(server: HTTP2ServerConfiguration(maxConcurrentStreams: 0))
        #expect(wire.client.streamsForbiddenSince == nil)
        wire.settle()
        #expect(wire.client.streamsForbiddenSince == 1_000)
        #expect(wire.submit(tag: 1) == .full)
        wire.now = 2_000
        wire.server.updateSettings(streamWindow: 70_000)
        wire.settle()
        #expect(wire.client.streamsForbiddenSince == 1_000)
        wire.server.updateSettings(maxConcurrentStreams: 2)
        wire.settle()
        #expect(wire.client.streamsForbiddenSince == nil)
        #expect(wire.submit(tag: 1) == .submitted)
    }

    @Test("draining at a limit of zero refuses what has no stream, waits for the rest and ends")
    func drainAtZeroStreams() throws {
        let wire = try Wire()
        wire.settle()
        #expect(wire.submit(tag: 1) == .submitted)
        wire.settle()
        wire.server.updateSettings(maxConcurrentStreams: 0)
        // Submitted before the limit is known.
        #expect(wire.submit(tag: 2) == .submitted)
        wire.serverSpeaks()
        _ = wire.events()
        wire.client.startDraining()
        #expect(wire.events() == [.refused(2)])
        #expect(!wire.isFinished)
        for request in wire.requests() { wire.server.respond(to: request.streamID, HTTP2Response(status: 200)) }
        wire.settle()
        #expect(wire.events() == [.answered(1, status: 200), .closed(.drained)])
    }

    @Test("PING tells the round trip; only one is on its way")
    func ping() throws {
        let wire = try Wire()
        wire.settle()
        _ = wire.events()
        let first = wire.client.ping(now: 5_000, deadline: 9_000)
        let second = wire.client.ping(now: 5_001, deadline: 9_000)
        #expect(first && !second)
        #expect(wire.nextDeadline == 9_000)
        wire.clientSpeaks()
        wire.now = 5_250
        wire.serverSpeaks()
        #expect(wire.events() == [.ping(250)])
        #expect(wire.nextDeadline == nil)
    }

    @Test("a PING without answer ends the connection")
    func pingTimeout() throws {
        let wire = try Wire()
        wire.settle()
        _ = wire.events()
        _ = wire.submit(tag: 1)
        wire.settle()
        _ = wire.client.ping(now: 5_000, deadline: 9_000)
        wire.client.hitDeadline(now: 8_999)
        #expect(wire.events().isEmpty)
        wire.client.hitDeadline(now: 9_000)
        #expect(wire.events() == [.reset(1, nil), .closed(.pingTimeout)])
    }

    @Test(
        "deadlines strike in their order, cancel the stream, and late answers are not told"
    )
    func deadlines() throws {
        let wire = try Wire()
        wire.settle()
        _ = wire.events()
        for (tag, deadline) in [(1, 300), (2, 100), (3, 200), (4, 400)] as [(UInt64, UInt64)] {
            _ = wire.submit(tag: tag, deadline: deadline)
        }
        #expect(wire.nextDeadline == 100)
        wire.settle()
        let requests = wire.requests()
        wire.client.hitDeadline(now: 99)
        #expect(wire.ends().isEmpty)
        wire.client.hitDeadline(now: 300)
        #expect(wire.ends() == [.timedOut(2), .timedOut(3), .timedOut(1)])
        #expect(wire.nextDeadline == 400)
        for request in requests { wire.server.respond(to: request.streamID, HTTP2Response(status: 200)) }
        wire.serverSpeaks()
        wire.settle()
        #expect(wire.ends() == [.answered(4, status: 200)])
        #expect(wire.nextDeadline == nil)
        #expect(wire.inFlight == 0)
        var cancelled: [HTTP2ErrorCode] = []
        while let event = wire.server.nextEvent() {
            if case .cancelled(_, let code) = event { cancelled.append(code) }
        }
        #expect(cancelled.allSatisfy { $0 == .cancel })
    }

    @Test("a deadline that strikes before anything left is survived")
    func deadlineBeforeSending() throws {
        let wire = try Wire()
        wire.settle()
        _ = wire.events()
        _ = wire.submit(tag: 1, deadline: 10)
        wire.client.hitDeadline(now: 10)
        #expect(wire.events() == [.unsent(1, isOverdue: true)])
        wire.settle()
        #expect(wire.inFlight == 0)
        #expect(wire.requests().isEmpty)
        #expect(wire.submit(tag: 2) == .submitted)
    }

    @Test func `A request that waits for a window until it is valid no longer is never sent`() throws {
        // A window of 65,535 bytes: the first two bodies fill it, and the third waits.
        let wire = try Wire(server: HTTP2ServerConfiguration(connectionWindow: 65_535))
        wire.settle()
        _ = wire.events()
        let large = Samples.make(body: .shared([UInt8](repeating: 0x20, count: 32_768)))
        for tag: UInt64 in 1...2 { #expect(wire.submit(large, tag: tag) == .submitted) }
        for tag: UInt64 in 3...5 {
            #expect(wire.submit(large, tag: tag, validUntil: tag == 4 ? 1_001 : 2_000) == .submitted)
        }
        wire.clientSpeaks()
        #expect(wire.ends().isEmpty)
        wire.now = 1_001
        wire.settle()
        #expect(wire.ends() == [.unsent(4, isOverdue: false)])
        let requests = wire.requests()
        #expect(requests.count == 4)
        for request in requests { wire.server.respond(to: request.streamID, HTTP2Response(status: 200)) }
        wire.settle()
        #expect(wire.ends() == [1, 2, 3, 5].map { .answered($0, status: 200) })
        #expect(wire.inFlight == 0)
    }

    @Test("draining waits for the last answer, says GOAWAY and ends")
    func drain() throws {
        let wire = try Wire()
        wire.settle()
        _ = wire.events()
        _ = wire.submit(tag: 1)
        wire.settle()
        wire.client.startDraining()
        #expect(wire.submit(tag: 2) == .closed)
        wire.settle()
        #expect(!wire.isFinished)
        wire.server.respond(to: 1, HTTP2Response(status: 200))
        wire.settle()
        #expect(wire.events() == [.answered(1, status: 200), .closed(.drained)])
        var isGoAwaySeen = false
        while let event = wire.server.nextEvent() {
            if case .goAway(.noError) = event { isGoAwaySeen = true }
        }
        #expect(isGoAwaySeen)
    }

    @Test("draining ends with a request that timed out before it left")
    func drainUnsent() throws {
        let wire = try Wire()
        wire.settle()
        _ = wire.events()
        _ = wire.submit(tag: 1, deadline: 10)
        wire.client.startDraining()
        wire.client.hitDeadline(now: 10)
        wire.settle()
        #expect(wire.events() == [.unsent(1, isOverdue: true), .closed(.drained)])
    }

    @Test("draining an idle connection ends it at once")
    func drainIdle() throws {
        let wire = try Wire()
        wire.settle()
        _ = wire.events()
        wire.client.startDraining()
        wire.settle()
        #expect(wire.events() == [.closed(.drained)])
    }

    @Test("after the end every open tag has exactly one event")
    func everyTagOnce() throws {
        let wire = try Wire()
        wire.settle()
        _ = wire.events()
        for tag: UInt64 in 1...10 { _ = wire.submit(tag: tag) }
        wire.settle()
        for tag: UInt64 in 11...20 { _ = wire.submit(tag: tag, deadline: tag == 11 ? 1 : 1_000) }
        wire.client.hitDeadline(now: 1)
        wire.server.respond(to: 1, HTTP2Response(status: 200))
        wire.serverSpeaks()
        wire.client.close(.transport("reset by peer"))
        wire.client.close(.transport("again"))
        let events = wire.events()
        let sent = (2...10).map { ClientEvent.reset($0, nil) }
        let unsent = (12...20).map { ClientEvent.refused($0) }
        #expect(events.count == 21)
        #expect(
            Set(events)
                == Set(
                    sent + unsent
                        + [
                            .unsent(11, isOverdue: true), .answered(1, status: 200),
                            .closed(.transport("reset by peer")),
                        ]
                )
        )
        #expect(events.last == .closed(.transport("reset by peer")))
        #expect(wire.inFlight == 0)
        #expect(wire.submit(tag: 99) == .closed)
    }
}
