import ApusCore
import Testing

@testable import ApusSimulator

/// The simulated Mozilla service towards real browsers, as a trace of texts.
@Suite struct FirefoxPushServiceTests {
    private var service = FirefoxPushService()
    private var names = 0

    private mutating func receive(_ text: String, on connection: Int = 1) -> [JSONValue]? {
        var names = self.names
        defer { self.names = names }
        let texts = self.service.receive(text, on: connection) {
            names += 1
            return "name\(names)"
        }
        return texts?.compactMap { try? JSONValue(parsing: Array($0.utf8), bytesMax: 10_000) }
    }

    /// Sends hello as name1 and subscribes as name2.
    private mutating func subscribe() throws -> String {
        _ = self.receive(#"{"messageType":"hello","broadcasts":{},"use_webpush":true}"#)
        let answer = self.receive(#"{"messageType":"register","channelID":"c1","key":"AQI="}"#)
        let endpoint = try #require(answer?.first?["pushEndpoint"]?.string)
        #expect(endpoint == "https://updates.push.services.mozilla.com/wpush/v2/firefox-name2")
        return SimulatedBrowser.path(of: endpoint)
    }

    private mutating func deliver(_ version: String, _ path: String, isKept: Bool = true) throws -> (Int, JSONValue)? {
        let outgoing = try self.service.deliver([1, 2, 3], toPath: path, version: version, isKept: isKept)
        return try outgoing.map { ($0.connection, try JSONValue(parsing: Array($0.text.utf8), bytesMax: 10_000)) }
    }

    @Test mutating func `A browser says hello, subscribes with its key, and gets what is sent`() throws {
        let hello = self.receive(#"{"messageType":"hello","broadcasts":{},"use_webpush":true}"#)
        let expected: JSONValue = [
            "messageType": "hello", "uaid": "name1", "status": 200, "use_webpush": true, "broadcasts": [:],
        ]
        #expect(hello == [expected])
        let answer = self.receive(#"{"messageType":"register","channelID":"c1","key":"AQI="}"#)
        let path = SimulatedBrowser.path(of: try #require(answer?.first?["pushEndpoint"]?.string))
        #expect(FirefoxPushService.owns(path: path))
        #expect(try self.service.key(ofPath: path) == [1, 2])
        let (connection, text) = try #require(try self.deliver("v1", path))
        let notification: JSONValue = [
            "messageType": "notification", "channelID": "c1", "version": "v1", "data": "AQID",
            "headers": ["encoding": "aes128gcm"],
        ]
        #expect(connection == 1 && text == notification)
        #expect(self.receive("{}") == [[:]], "a ping")
    }

    @Test mutating func `What was not acknowledged comes again after the next hello`() throws {
        let path = try self.subscribe()
        _ = try self.deliver("v1", path)
        _ = try self.deliver("v2", path)
        let acknowledgement = #"{"messageType":"ack","updates":[{"channelID":"c1","version":"v1","code":100}]}"#
        #expect(self.receive(acknowledgement) == [])
        self.service.closed(1)
        #expect(try self.deliver("v3", path) == nil)
        #expect(try self.deliver("v4", path, isKept: false) == nil, "TTL 0 is for who is connected")
        let again = self.receive(#"{"messageType":"hello","uaid":"name1","use_webpush":true}"#, on: 2)
        #expect(again?.compactMap { $0["version"]?.string } == ["v2", "v3"])
        #expect(again?.first?["uaid"] == "name1")
    }

    @Test mutating func `Who has unsubscribed is gone`() throws {
        let path = try self.subscribe()
        let answer = self.receive(#"{"messageType":"unregister","channelID":"c1","code":200}"#)
        #expect(answer == [["messageType": "unregister", "channelID": "c1", "status": 200]])
        #expect(throws: WebPushRefusal.gone) { try self.service.key(ofPath: path) }
        #expect(throws: WebPushRefusal.gone) { try self.deliver("v1", path) }
    }

    @Test mutating func `No more notifications wait for a browser than the limit`() throws {
        let path = try self.subscribe()
        self.service.closed(1)
        for number in 1...FirefoxPushService.waitingMax { _ = try self.deliver("v\(number)", path) }
        #expect(throws: WebPushRefusal.tooManyRequests) { try self.deliver("one more", path) }
    }

    @Test mutating func `No more browsers and subscriptions are taken than the limits`() throws {
        _ = try self.subscribe()
        for number in 2...FirefoxPushService.channelsMax {
            let answer = self.receive(#"{"messageType":"register","channelID":"c\#(number)"}"#)
            #expect(answer?.first?["status"] == 200)
        }
        #expect(self.receive(#"{"messageType":"register","channelID":"more"}"#)?.first?["status"] == 400)
        for number in 2...FirefoxPushService.browsersMax {
            #expect(self.receive(#"{"messageType":"hello"}"#, on: number) != nil)
        }
        #expect(self.receive(#"{"messageType":"hello"}"#, on: 1_000) == nil)
    }

    @Test(arguments: [
        "", "null", "[]", "{\"messageType\":", #"{"messageType":"register","channelID":"c"}"#,
        #"{"messageType":"hello","uaid":7"#, String(repeating: " ", count: 100_000),
    ])
    mutating func `A text that is none of the protocol, or comes before hello, ends the connection`(text: String) {
        #expect(self.receive(text) == nil)
    }
}
