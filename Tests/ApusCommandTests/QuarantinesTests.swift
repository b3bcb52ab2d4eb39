import ApusCore
import ApusStore
import ApusStreams
import ApusTerminal
import ApusTestKit
import Testing

@testable import ApusCommand

@Suite struct QuarantinesTests {
    private static let now = UnixMilliseconds(1_700_000_000_000)

    private static func state(
        _ route: String,
        suspects: Int,
        moving: Int,
        retrying: Int = 0,
        since: Int64? = nil
    ) -> String {
        var guardState = TokenQuarantine.State()
        guardState.tokens = suspects
        guardState.quarantinedAt = since.map { UnixMilliseconds(Self.now.value - $0) }
        let row = Quarantines.Row(
            route: route,
            state: guardState,
            moving: moving,
            retrying: retrying,
            isPaused: since != nil
        )
        #expect(row.json["moving"] == .integer(moving) && row.json["retrying"] == .integer(retrying))
        return Quarantines.table([row], now: Self.now).lines.last ?? ""
    }

    @Test func `A list says which devices will be deleted and which moved`() {
        let production = "shop/apns/production"
        #expect(Self.state(production, suspects: 40, moving: 0).contains("  waiting to be deleted"))
        #expect(Self.state(production, suspects: 40, moving: 40).contains("  waiting to be moved to sandbox"))
        #expect(
            Self.state(production, suspects: 40, moving: 2)
                .contains("  38 waiting to be deleted, 2 to be moved to sandbox")
        )
        #expect(Self.state("shop/apns/sandbox", suspects: 1, moving: 1).contains("  waiting to be moved to production"))
        let browsers = "shop/webpush/production"
        #expect(Self.state(browsers, suspects: 4, moving: 0, retrying: 4).contains("  waiting to be tried again"))
        #expect(
            Self.state(browsers, suspects: 4, moving: 0, retrying: 1)
                .contains("  3 waiting to be deleted, 1 to be tried again")
        )
        let held = Self.state(production, suspects: 40, moving: 2, since: 60_000)
        #expect(held.contains("in quarantine for") && !held.contains("waiting"))
    }

    @Test func `What is deleted can be brought back as the configuration says, and for a week where there is none`()
        throws
    {
        let folder = try TemporaryFolder()
        func undo(_ window: String) throws -> DeviceStore.UndoRules? {
            let yaml = "feedback: {undo_window: \(window)}\n"
            return try ConfigurationAccess.undo(file: try folder.write("apus.yaml", yaml))
        }
        #expect(try undo("0s") == nil)
        #expect(try undo("1h") == DeviceStore.UndoRules(keepMilliseconds: 3_600_000))
        #expect(throws: CommandFailure.self) { try undo("soon") }
        #expect(try ConfigurationAccess.undo(file: nil) == .default)
    }

    @Test func `The decision of an operator reports what it did`() {
        var settlement = Quarantines.Settlement(route: "shop/apns/production")
        (settlement.settled, settlement.moved, settlement.moot) = (38, 2, 1)
        #expect(
            settlement.line(.confirm(undo: nil))
                == "shop/apns/production  38 deleted, 2 moved to the other environment, 1 needed nothing; the route is not paused"
        )
        (settlement.settled, settlement.moved, settlement.moot) = (40, 0, 0)
        #expect(settlement.line(.restore) == "shop/apns/production  40 restored; the route is not paused")
    }
}
