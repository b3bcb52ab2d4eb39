internal import ApusCore
internal import ApusTLS

/// Serves real Firefox browsers as Mozilla's push service does: gives them subscriptions, and passes on what these are sent until they
/// acknowledge it.
///
/// Pure: texts of browsers and requests of senders go in, texts for browsers come out; connections are numbers, and names are an argument.
///
/// Source: https://mozilla-push-service.readthedocs.io/en/latest/design/#simplepush-protocol, with the additions of Web Push that
/// https://searchfox.org/mozilla-central/source/dom/push/PushServiceWebSocket.sys.mjs sends and expects.
struct FirefoxPushService {
    /// A text for the browser of a connection.
    struct Outgoing: Hashable {
        let connection: Int
        let text: String
    }

    /// A subscription that senders may send to.
    private struct Channel {
        /// The key with which the browser subscribed; nil when it named none.
        let key: [UInt8]?
        /// The notifications that the browser has not acknowledged, oldest first.
        var waiting: [(version: String, text: String)] = []
    }

    private struct Browser {
        /// The number of its connection; nil while it has none.
        var connection: Int?
        /// Its subscriptions, by the browser's own ids.
        var channels: [String: Channel] = [:]
    }

    private struct Place {
        let browser: String
        let channel: String
    }

    private var browsers: [String: Browser] = [:]
    /// The browsers that have said hello, by connection.
    private var connected: [Int: String] = [:]
    /// The subscriptions by the last part of their endpoints.
    private var places: [String: Place] = [:]

    /// The maximum number of browsers that have ever said hello.
    static let browsersMax = 100
    /// The maximum number of subscriptions of a browser.
    static let channelsMax = 100
    /// The maximum number of notifications that wait for a browser at one subscription.
    static let waitingMax = 100

    private static let pathPrefix = "/wpush/v2/firefox-"

    // MARK: Browsers

    /// Takes a browser's text, and returns the texts to answer with; nil when the connection must be closed.
    ///
    /// - Parameter newName: returns a name that was never used.
    mutating func receive(_ text: String, on connection: Int, newName: () -> String) -> [String]? {
        guard let message = try? JSONValue(parsing: Array(text.utf8), bytesMax: SimulatorLimits.firefoxTextBytesMax),
            message.object != nil
        else { return nil }
        let type = message["messageType"]?.string
        if type == "hello" { return self.hello(message["uaid"]?.string, connection, newName) }
        guard let name = self.connected[connection] else { return nil }
        switch type {
        // A ping.
        case nil: return ["{}"]
        case "register": return self.register(message, of: name, newName)
        case "unregister": return self.unregister(message, of: name)
        case "ack", "nack":
            self.acknowledge(message, of: name)
            return []
        // Topics that Mozilla broadcasts, such as its lists of bad certificates.
        default: return []
        }
    }

    /// Notes that a connection has ended. Its browser's notifications wait for the next one.
    mutating func closed(_ connection: Int) {
        guard let name = self.connected.removeValue(forKey: connection) else { return }
        if self.browsers[name]?.connection == connection { self.browsers[name]?.connection = nil }
    }

    private mutating func hello(_ known: String?, _ connection: Int, _ newName: () -> String) -> [String]? {
        let name = known.flatMap { self.browsers[$0] == nil ? nil : $0 } ?? newName()
        guard self.connected[connection] == nil else { return nil }
        guard self.browsers[name] != nil || self.browsers.count < Self.browsersMax else { return nil }
        var browser = self.browsers[name] ?? Browser()
        browser.connection = connection
        self.browsers[name] = browser
        self.connected[connection] = name
        let answer: JSONValue = [
            "messageType": "hello", "uaid": .string(name), "status": 200, "use_webpush": true, "broadcasts": [:],
        ]
        return [answer.text] + browser.channels.values.flatMap { $0.waiting.map(\.text) }
    }

    private mutating func register(_ message: JSONValue, of name: String, _ newName: () -> String) -> [String]? {
        guard let channel = message["channelID"]?.string else { return nil }
        var answer: JSONObject = ["messageType": "register", "channelID": .string(channel)]
        // Firefox sends the key with padding.
        let key = message["key"]?.string.map { Base64URL.decode(String($0.prefix { $0 != "=" })) }
        guard let browser = self.browsers[name], browser.channels[channel] == nil,
            browser.channels.count < Self.channelsMax, key.map({ $0 != nil }) ?? true
        else {
            answer["status"] = 400
            return [JSONValue.object(answer).text]
        }
        let path = Self.pathPrefix + newName()
        self.browsers[name]?.channels[channel] = Channel(key: key.flatMap(\.self))
        self.places[path] = Place(browser: name, channel: channel)
        answer["status"] = 200
        answer["pushEndpoint"] = .string("https://\(SimulatedBrowser.Service.mozilla.rawValue)\(path)")
        return [JSONValue.object(answer).text]
    }

    private mutating func unregister(_ message: JSONValue, of name: String) -> [String]? {
        guard let channel = message["channelID"]?.string else { return nil }
        self.browsers[name]?.channels[channel] = nil
        for (path, place) in self.places where place.browser == name && place.channel == channel {
            self.places[path] = nil
        }
        let answer: JSONValue = ["messageType": "unregister", "channelID": .string(channel), "status": 200]
        return [answer.text]
    }

    private mutating func acknowledge(_ message: JSONValue, of name: String) {
        for update in message["updates"]?.array ?? [message] {
            guard let channel = update["channelID"]?.string ?? self.channel(of: update["version"]?.string, name) else {
                continue
            }
            self.browsers[name]?.channels[channel]?.waiting.removeAll { $0.version == update["version"]?.string }
        }
    }

    /// Returns the subscription of a waiting notification: a browser that could not decrypt one names no channel.
    private func channel(of version: String?, _ name: String) -> String? {
        self.browsers[name]?.channels.first { $0.value.waiting.contains { $0.version == version } }?.key
    }

    // MARK: Senders

    /// Returns true when a path is, or was, that of a real browser's subscription.
    static func owns(path: String) -> Bool { path.hasPrefix(self.pathPrefix) }

    /// Returns the key with which a path's browser subscribed; nil when it named none.
    ///
    /// - Throws: `gone` when the browser has unsubscribed.
    func key(ofPath path: String) throws(WebPushRefusal) -> [UInt8]? {
        guard let place = self.places[path] else { throw .gone }
        return self.browsers[place.browser]?.channels[place.channel]?.key
    }

    /// Passes on a valid message, now or when the browser says hello again.
    ///
    /// - Parameters:
    ///   - version: the message's id, which no other has.
    ///   - isKept: false for a message with TTL 0, which is for a connected browser or for nobody (RFC 8030 §5.2).
    /// - Returns: the text for the browser; nil when it is not connected.
    /// - Throws: `gone`, or `tooManyRequests` when ``waitingMax`` notifications wait.
    mutating func deliver(
        _ body: [UInt8],
        toPath path: String,
        version: String,
        isKept: Bool,
    ) throws(WebPushRefusal) -> Outgoing? {
        guard let place = self.places[path], let browser = self.browsers[place.browser],
            let channel = browser.channels[place.channel]
        else { throw .gone }
        guard channel.waiting.count < Self.waitingMax else { throw .tooManyRequests }
        var message: JSONObject = [
            "messageType": "notification", "channelID": .string(place.channel), "version": .string(version),
        ]
        if !body.isEmpty {
            message["data"] = .string(Base64URL.encode(body))
            message["headers"] = ["encoding": "aes128gcm"]
        }
        let text = JSONValue.object(message).text
        guard isKept || browser.connection != nil else { return nil }
        self.browsers[place.browser]?.channels[place.channel]?.waiting.append((version, text))
        return browser.connection.map { Outgoing(connection: $0, text: text) }
    }
}
