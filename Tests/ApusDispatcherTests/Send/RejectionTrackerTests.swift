import Testing

@testable import ApusDispatcher

@Suite struct RejectionTrackerTests {
    private typealias News = RejectionTracker.News

    @Test func `D50 One refusal flags the send, once`() {
        var blame = RejectionTracker()
        #expect(blame.takeNews() == nil)
        blame.record("message.data[0].value")
        #expect(blame.takeNews() == News(field: "message.data[0].value", isByAll: false))
        blame.record("message.data[0].value")
        #expect(blame.takeNews() == nil)
    }

    @Test func `D51 A message refused twenty times and never accepted is refused for every recipient`() {
        var blame = RejectionTracker()
        for _ in 0..<19 { blame.record("message.android.ttl") }
        #expect(blame.takeNews() == News(field: "message.android.ttl", isByAll: false))
        blame.record("message.android.ttl")
        #expect(blame.takeNews() == News(field: "message.android.ttl", isByAll: true))
        for _ in 0..<100 { blame.record("message.android.ttl") }
        #expect(blame.takeNews() == nil)
    }

    @Test func `D51 A message is wrong for every recipient only when every variant was refused`() {
        var blame = RejectionTracker(variants: 2)
        for _ in 0..<100 { blame.record("message.data[0].value", variant: 1) }
        #expect(blame.takeNews()?.isByAll == false)
        blame.record("message.data[0].value", variant: 0)
        #expect(blame.takeNews()?.isByAll == true)
    }

    @Test
    func
        `D51 One who took the message shows that it is not wrong for everybody, and what blames no field counts for nothing`()
    {
        var blame = RejectionTracker()
        blame.recordAccepted()
        for _ in 0..<100 { blame.record("message.android.ttl") }
        #expect(blame.takeNews() == News(field: "message.android.ttl", isByAll: false))
        var other = RejectionTracker()
        for _ in 0..<100 { other.record("") }
        #expect(other.takeNews() == nil)
    }
}
