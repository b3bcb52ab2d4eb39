import ApusCore
import ApusService
import Foundation
import Testing

@testable import ApusConsole

@Suite struct ConsoleAccessTests {
    private static let loopback = ListenAddress(host: "127.0.0.1", port: 8_190)
    private static let everywhere = ListenAddress(host: "0.0.0.0", port: 8_190)

    @Test func `Beyond loopback it takes an address with TLS`() throws {
        #expect(throws: ConsoleAccess.Mistake.unprotected("0.0.0.0")) {
            _ = try ConsoleAccess(listen: Self.everywhere, publicURL: nil)
        }
        #expect(throws: ConsoleAccess.Mistake.unprotected("0.0.0.0")) {
            _ = try ConsoleAccess(listen: Self.everywhere, publicURL: "http://push.example")
        }
        for text in ["push.example", "ftp://push.example", "https://", "https://push.example/console"] {
            #expect(throws: ConsoleAccess.Mistake.noAddress(text)) {
                _ = try ConsoleAccess(listen: Self.everywhere, publicURL: text)
            }
        }
        let access = try ConsoleAccess(listen: Self.everywhere, publicURL: "https://Push.Example/")
        #expect(access.isSecure && !access.isOpenForReading)
        #expect(
            access.isOwn(host: "push.example") && !access.isOwn(host: "127.0.0.1") && !access.isOwn(host: "example")
        )
        #expect(access.isOwn(origin: "https://push.example") && !access.isOwn(origin: "http://push.example"))
    }

    @Test func `On loopback it answers for loopback names only, whatever port a tunnel has`() throws {
        let access = try ConsoleAccess(listen: Self.loopback, publicURL: nil)
        #expect(!access.isSecure && access.isOpenForReading)
        for host in ["127.0.0.1:8190", "localhost:9000", "[::1]:8190", "127.0.0.1", "LOCALHOST"] {
            #expect(access.isOwn(host: host), "\(host)")
        }
        // A name of somebody's that resolves to 127.0.0.1 makes its pages no pages of ours.
        for host in ["rebound.example:8190", "", "127.0.0.1.example", "localhost.example"] {
            #expect(!access.isOwn(host: host), "\(host)")
        }
        #expect(access.isOwn(origin: nil) && access.isOwn(origin: "http://localhost:8190"))
        #expect(!access.isOwn(origin: "null") && !access.isOwn(origin: "https://evil.example"))
    }
}

@Suite struct ConsolePathTests {
    @Test func `A path is read as it is written, and nothing else is`() throws {
        let app = try AppID("shop")
        let paths: [ConsolePath] =
            [.overview, .signIn, .signOut, .live, .asset("console.css"), .send(app, try SendID("news-17"))]
            + AppPage.allCases.map { .app(app, $0) }
        for path in paths { #expect(ConsolePath(path.text) == path, "\(path.text)") }
        for text in ["", "/apps", "/apps/shop", "/apps/SHOP/sends", "/apps/shop/nothing", "/apps/shop/sends/a/b", "/x"]
        {
            #expect(ConsolePath(text) == nil, "\(text)")
        }
    }
}

@Suite struct ConsoleArticleTests {
    @Test func `The article shows every page, in less than two megabytes`() throws {
        let root = URL(filePath: #filePath).appending(path: "../../..").standardized
        let folder = root.appending(path: "Sources/ApusConsole/ApusConsole.docc")
        let article = try String(contentsOf: folder.appending(path: "Console.md"), encoding: .utf8)
        var bytes = 0
        for name in ["overview", "send", "question"] + AppPage.allCases.map(\.rawValue) {
            #expect(article.contains("(console-\(name).png)"), "\(name)")
            bytes += try Data(contentsOf: folder.appending(path: "Resources/console-\(name).png")).count
        }
        #expect(bytes < 2_000_000)
    }
}

@Suite struct SessionTableTests {
    private static func session(at time: Int64) throws -> Session {
        Session(
            app: try AppID("shop"),
            key: "ops",
            keySHA256: [1],
            formToken: "f",
            beganAt: UnixMilliseconds(time),
            usedAt: UnixMilliseconds(time)
        )
    }

    @Test func `A session ends after an hour without a request, and after twelve in any case`() throws {
        var table = SessionTable()
        table.begin(try Self.session(at: 0), secret: "a")
        var time: Int64 = 0
        while time + SessionTable.idleMilliseconds - 1 < SessionTable.lifetimeMilliseconds {
            time += SessionTable.idleMilliseconds - 1
            #expect(table.use("a", now: UnixMilliseconds(time)) != nil, "\(time)")
        }
        #expect(table.use("a", now: UnixMilliseconds(SessionTable.lifetimeMilliseconds)) == nil)
        table.begin(try Self.session(at: 0), secret: "b")
        #expect(table.use("b", now: UnixMilliseconds(SessionTable.idleMilliseconds)) == nil)
        #expect(table.use("b", now: UnixMilliseconds(0)) == nil && table.use("c", now: UnixMilliseconds(0)) == nil)
    }

    @Test func `A look at a session is no use of it`() throws {
        var table = SessionTable()
        table.begin(try Self.session(at: 0), secret: "a")
        let idle = SessionTable.idleMilliseconds
        #expect(table.session("a", now: UnixMilliseconds(idle - 1)) != nil)
        #expect(table.session("a", now: UnixMilliseconds(idle)) == nil)
        #expect(table.session("b", now: UnixMilliseconds(0)) == nil)
        for time in stride(from: 0, to: SessionTable.lifetimeMilliseconds, by: Int(idle) - 1) {
            #expect(table.use("a", now: UnixMilliseconds(time)) != nil)
        }
        #expect(table.session("a", now: UnixMilliseconds(SessionTable.lifetimeMilliseconds)) == nil)
    }

    @Test func `The session that was not used for longest gives way to one too many`() throws {
        var table = SessionTable()
        for number in 0..<SessionTable.countMax {
            table.begin(try Self.session(at: Int64(number)), secret: "s\(number)")
        }
        #expect(table.use("s0", now: UnixMilliseconds(5_000)) != nil)
        table.begin(try Self.session(at: 5_000), secret: "new")
        #expect(table.count == SessionTable.countMax)
        #expect(table.use("s1", now: UnixMilliseconds(5_000)) == nil)
        #expect(
            table.use("s0", now: UnixMilliseconds(5_000)) != nil
                && table.use("new", now: UnixMilliseconds(5_000)) != nil
        )
        table.end("new")
        #expect(table.use("new", now: UnixMilliseconds(5_000)) == nil)
    }

    @Test func `The last acts of a session can be told, and no other's`() throws {
        var table = SessionTable()
        table.begin(try Self.session(at: 0), secret: "a")
        table.begin(try Self.session(at: 0), secret: "b")
        for number in 1...(SessionTable.noticesMax + 1) {
            #expect(table.note("act \(number)", in: "a") == number)
        }
        let notices = table.use("a", now: UnixMilliseconds(1))?.notices ?? []
        #expect(notices.map(\.number) == Array(2...(SessionTable.noticesMax + 1)))
        #expect(notices.last?.words == "act \(SessionTable.noticesMax + 1)")
        #expect(table.use("b", now: UnixMilliseconds(1))?.notices == [])
        #expect(table.note("x", in: "nobody") == nil)
    }
}
