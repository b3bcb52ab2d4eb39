import Testing

@testable import ApusProviders

@Suite struct OriginVerdictsTests {
    private static let minute: UInt64 = 60_000_000_000

    @Test func `The credential is at fault when two services refuse it and none has accepted it lately`() {
        let verdicts = OriginVerdicts()
        #expect(!verdicts.refused(by: "fcm.googleapis.com", .known, now: 0))
        #expect(!verdicts.refused(by: "fcm.googleapis.com", .known, now: Self.minute))
        #expect(verdicts.refused(by: "updates.push.services.mozilla.com", .known, now: 2 * Self.minute))
    }

    @Test func `All hosts of a service are one`() {
        let verdicts = OriginVerdicts()
        for host in ["wns2-par02p.notify.windows.com", "wns2-bn1p.notify.windows.com", "wns2-am3p.notify.windows.com"] {
            #expect(!verdicts.refused(by: host, .known, now: 0))
        }
        #expect(verdicts.refused(by: "push.shop.example", .named, now: 0))
    }

    @Test func `Hosts that anybody may name say nothing of the credential`() {
        let verdicts = OriginVerdicts()
        for number in 0..<100 { #expect(!verdicts.refused(by: "a\(number).example", .unknown, now: 0)) }
        #expect(!verdicts.refused(by: "fcm.googleapis.com", .known, now: 0))
    }

    @Test func `An acceptance counts for ten minutes, and so does a refusal`() {
        let verdicts = OriginVerdicts()
        verdicts.accepted(now: 0)
        for host in ["fcm.googleapis.com", "web.push.apple.com"] {
            #expect(!verdicts.refused(by: host, .known, now: 10 * Self.minute - 1))
        }
        #expect(!verdicts.refused(by: "fcm.googleapis.com", .known, now: 10 * Self.minute))
        #expect(!verdicts.refused(by: "web.push.apple.com", .known, now: 20 * Self.minute))
        #expect(verdicts.refused(by: "fcm.googleapis.com", .known, now: 21 * Self.minute))
    }

    @Test func `A verdict that was overruled is not given again for ten minutes, and is no acceptance`() {
        let verdicts = OriginVerdicts()
        func refusal(_ host: String, at time: UInt64) -> Bool { verdicts.refused(by: host, .known, now: time) }
        #expect(!refusal("fcm.googleapis.com", at: 0))
        #expect(refusal("web.push.apple.com", at: Self.minute))
        verdicts.restored(now: Self.minute)
        #expect(!verdicts.isAccepted(now: Self.minute))
        for host in ["fcm.googleapis.com", "web.push.apple.com"] { #expect(!refusal(host, at: 11 * Self.minute - 1)) }
        #expect(!refusal("fcm.googleapis.com", at: 11 * Self.minute))
        #expect(refusal("web.push.apple.com", at: 11 * Self.minute))
        verdicts.accepted(now: 12 * Self.minute)
        #expect(verdicts.isAccepted(now: 22 * Self.minute - 1) && !verdicts.isAccepted(now: 22 * Self.minute))
    }
}
