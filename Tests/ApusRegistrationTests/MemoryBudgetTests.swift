import ApusCore
import Testing

@testable import ApusRegistration

@Suite struct MemoryBudgetTests {
    @Test func `A share holds no more than its limit, nor than the whole has left`() {
        let whole = MemoryBudget(limit: 10)
        let (one, other) = (MemoryBudget(limit: 6, of: whole), MemoryBudget(limit: 6, of: whole))
        #expect(one.reserve(6) && !one.reserve(1))
        #expect(one.isSpent && !other.isSpent && whole.bytes == 6)
        #expect(other.hasRoom(for: 4) && !other.hasRoom(for: 5))
        #expect(!other.reserve(5) && other.bytes == 0 && whole.bytes == 6)
        #expect(other.reserve(4) && whole.isSpent && other.isSpent)
        one.release(6)
        other.release(4)
        #expect(whole.bytes == 0 && one.bytes == 0)
        one.hold(20)
        #expect(whole.bytes == 20 && other.isSpent)
        one.release(20)
    }

    @Test func `A reservation grows as far as there is room, and gives all back`() {
        let budget = MemoryBudget(limit: 10)
        do {
            let reservation = MemoryReservation(budget)
            #expect(reservation.grow(by: 4) && reservation.grow(by: 6) && !reservation.grow(by: 1))
            #expect(budget.bytes == 10 && budget.reservation(of: 1) == nil)
        }
        #expect(budget.bytes == 0)
    }

    @Test func `Backends, imports, users and one user have a part each`() throws {
        let whole = MemoryBudget(limit: 160 << 20)
        let shares = MemoryShares(whole)
        let (shop, news) = (try AppID("shop"), try AppID("news"))
        func user(_ name: String) throws -> MemoryBudget { shares.share(of: shop, .user(try UserID(name))) }
        let backend = shares.share(of: shop, .backend(key: "a", role: .publish))
        let imports = shares.importShare(of: shop)
        #expect(shares.share(of: shop, .backend(key: "b", role: .register)) === backend)
        #expect(backend.limit == 80 << 20 && imports.limit == 40 << 20)
        #expect(imports.reserve(40 << 20) && !imports.reserve(1) && backend.bytes == 40 << 20)
        #expect(backend.reserve(40 << 20) && !backend.reserve(1))
        let users = try (0..<5).map { try user("user-\($0)") }
        #expect(users.map { $0.reserve(10 << 20) } == [true, true, true, true, false])
        #expect(!users[0].reserve(1), "one user has a sixteenth")
        let other = shares.share(of: news, .backend(key: "a", role: .admin))
        #expect(other.reserve(40 << 20) && !other.reserve(1), "the rest of the whole")
        #expect(!shares.anybody.reserve(1) && shares.anybody.limit == 40 << 20)
    }

    @Test func `Shares that nobody refers to are forgotten`() throws {
        let shares = MemoryShares(MemoryBudget(limit: 16 << 20))
        let kept = shares.share(of: try AppID("shop"), .backend(key: "a", role: .publish))
        for index in 0..<10_000 {
            #expect(shares.share(of: try AppID("shop"), .user(try UserID("user-\(index)"))).reserve(1))
        }
        #expect(shares.shareCount < 2_000)
        #expect(shares.share(of: try AppID("shop"), .backend(key: "a", role: .publish)) === kept)
    }
}
