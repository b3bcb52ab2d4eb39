import Testing

@testable import ApusDispatcher

@Suite struct RejectionTrackerTests {
    private typealias News = RejectionTracker.News

    @Test func `D50 One refusal flags the send, once`() {
        var tracker = RejectionTracker()
        #expect(tracker.takeNews() == nil)
        tracker.record("message.data[0].value")
        #expect(tracker.takeNews() == News(field: "message.data[0].value", isByAll: false))
        tracker.record("message.data[0].value")
        #expect(tracker.takeNews() == nil)
    }

    @Test func `D51 A message refused twenty times and never accepted is refused for every recipient`() {
        var tracker = RejectionTracker()
        for _ in 0..<19 { tracker.record("message.android.ttl") }
        #expect(tracker.takeNews() == News(field: "message.android.ttl", isByAll: false))
        tracker.record("message.android.ttl")
        #expect(tracker.takeNews() == News(field: "message.android.ttl", isByAll: true))
        for _ in 0..<100 { tracker.record("message.android.ttl") }
        #expect(tracker.takeNews() == nil)
    }

    @Test func `D51 A message is wrong for every recipient only when every variant was refused`() {
        var tracker = RejectionTracker(variants: 2)
        for _ in 0..<100 { tracker.record("message.data[0].value", variant: 1) }
        #expect(tracker.takeNews()?.isByAll == false)
        tracker.record("message.data[0].value", variant: 0)
        #expect(tracker.takeNews()?.isByAll == true)
    }

    @Test func `D51 A message refused on one platform is flagged, and is not wrong for everybody`() {
        var tracker = RejectionTracker()
        for _ in 0..<100 { tracker.record("message.android", isOfOnePlatform: true) }
        #expect(tracker.takeNews() == News(field: "message.android", isByAll: false))
        #expect(tracker.takeNews() == nil)
    }

    @Test
    func
        `D51 An accepted message shows that it is not wrong for everybody, and a rejection without a field counts for nothing`()
    {
        var tracker = RejectionTracker()
        tracker.recordAccepted()
        for _ in 0..<100 { tracker.record("message.android.ttl") }
        #expect(tracker.takeNews() == News(field: "message.android.ttl", isByAll: false))
        var other = RejectionTracker()
        for _ in 0..<100 { other.record("") }
        #expect(other.takeNews() == nil)
    }
}
