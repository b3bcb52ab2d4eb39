import Testing

@testable import ApusTerminal

@Suite struct SendObstacleTests {
    @Test func `An obstacle is new once, however long it lasts`() {
        func paused(_ seconds: Int) -> SendObstacle {
            SendObstacle(id: "shop/fcm paused_by_provider", sentence: "stopped by the provider for \(seconds)s")
        }
        let missing = SendObstacle(id: "dispatcher", sentence: "none runs")
        #expect(SendObstacle.new([paused(9)], since: []) == [paused(9)])
        #expect(SendObstacle.new([missing, paused(8)], since: [paused(9)]) == [missing])
        #expect(SendObstacle.new([paused(30)], since: [missing]) == [paused(30)])
    }
}
