internal import ApusCore
internal import ApusMessages
internal import ApusPublisher
internal import ApusSimulator

/// A send, with what happened to it from outside.
final class SimulatedSend: @unchecked Sendable {
    enum Audience: Hashable, Sendable {
        case everyone
        case topic(String)
        /// The subscribers of a topic without a user: an expression, which is evaluated for each device.
        case subscribers(of: String, without: String)
        case providers([Provider])
        case users([String])
        case devices([String])
        /// Tokens that the publisher has itself, whatever has become of their devices.
        case tokens([Provider: [String]])
    }

    /// The app and the id: sends of several apps have the same ids.
    let key: SendKey
    let audience: Audience
    let lane: Lane
    let isAtMostOnce: Bool
    /// The time at which its publication began.
    let begin: Int64
    /// The time before which nothing of it may go out.
    var notBefore: Int64?
    /// The time after which nothing of it may go out.
    var expiry: Int64?
    /// The size of its text: of a longer one only rendering tells whether a provider takes it.
    var bodyBytes = 0
    /// The recipients per second; 0 for as many as the route allows.
    var ratePerSecond: UInt32 = 0
    /// True when it counts the badges of devices up.
    var countsBadges = false
    /// True when its publisher wants to know the outcome of each recipient.
    var listsRecipients = false
    /// True when its publisher has mailboxes of its own, where only a dispatcher can tell whether its id or its key was used before.
    var usesOwnMailbox = false
    /// The number of the shard into whose mailbox its publisher writes it by itself, whatever its home is; nil when a publisher of ours does.
    var foreignShard: Int?
    /// True when every dispatcher dies that is about to send it to a phone.
    var isPoison = false
    /// The time before which nobody pauses it: an attempt that was not answered may take effect until then.
    var quietUntil: Int64 = 0
    /// True when it is published over HTTP, and paused and cancelled so.
    var usesHTTP = false
    /// True when its command has an idempotency key, and comes again under another id.
    var hasTwin = false
    /// The time at which it was first known to be published; nil when it is not.
    var published: Int64?
    /// The level at which its publisher wants to know that it is published; nil: the best that there is.
    let acknowledgement: Acknowledgement?
    /// The number of writes of each master when it was last known to be published, if one may forget it with later ones; nil when a replica
    /// has it.
    var writes: [Int]?
    /// True while Redis may have forgotten it, which its publisher knew.
    var mayBeForgotten = false
    /// The time at which an operator was told that it is cancelled.
    var cancelled: Int64?
    /// The number of writes of each master at that time, if one may forget it with later ones.
    var cancelledWrites: [Int]?
    /// True once somebody has asked to cancel it.
    var mayBeCancelled = false

    init(
        key: SendKey,
        audience: Audience,
        lane: Lane,
        isAtMostOnce: Bool,
        acknowledgement: Acknowledgement?,
        begin: Int64
    ) {
        self.key = key
        self.audience = audience
        self.lane = lane
        self.isAtMostOnce = isAtMostOnce
        self.acknowledgement = acknowledgement
        self.begin = begin
    }

    /// Notes that a master has kept that many writes only.
    func forget(after writes: Int, of master: Int) {
        if let own = self.writes, own[master] > writes { self.mayBeForgotten = true }
        if let own = self.cancelledWrites, own[master] > writes {
            self.cancelled = nil
            self.cancelledWrites = nil
        }
    }

    /// The title of sends that are poison.
    static let poison = "This is poison"

    /// The id of the command that comes with the same key.
    var twinID: String { "\(self.key.id)-twin" }

    /// Its command.
    ///
    /// - Parameter wallOffset: the difference between the time of day and the time since the start of the machine, in nanoseconds.
    func command(wallOffset: Int64) -> SendCommand {
        func wall(_ time: Int64) -> UnixMilliseconds { UnixMilliseconds((time + wallOffset) / 1_000_000) }
        var notification = Notification()
        notification.title = self.isPoison ? Self.poison : "Hi"
        notification.body = String(repeating: "o", count: self.bodyBytes)
        if self.countsBadges { notification.badge = .increment(1) }
        notification.expiry = self.expiry.map { .at(wall($0)) }
        var command = SendCommand(app: self.key.app, target: self.target, notification: notification)
        command.id = self.key.id
        if self.listsRecipients { command.receiptLevel = .recipients }
        command.delivery = self.isAtMostOnce ? .atMostOnce : .atLeastOnce
        command.ratePerSecond = self.ratePerSecond
        command.notBefore = self.notBefore.map { wall($0) }
        if self.hasTwin { command.idempotencyKey = "key of \(self.key.id)" }
        return command
    }

    var target: Target {
        switch self.audience {
        case .everyone: .everyone([])
        case .topic(let topic): .topic(topic)
        case .subscribers(let topic, let user): .expression("'\(topic)' in topics && user != '\(user)'")
        case .providers(let providers): .everyone(providers)
        case .users(let users): .users(users)
        case .devices(let ids): .devices(ids)
        case .tokens(let tokens):
            .addresses(
                tokens.sorted { $0.key < $1.key }.flatMap { provider, tokens in
                    tokens.map { SimulatedBrowser.address($0, of: provider) }
                }
            )
        }
    }

    /// Returns true when a token is named that may have belonged to a device.
    func names(_ token: String, of provider: Provider) -> Bool {
        guard case .tokens(let tokens) = self.audience else { return false }
        return tokens[provider]?.contains(token) ?? false
    }

    /// True when it names tokens: what becomes of them is nothing to the store.
    var namesTokens: Bool { if case .tokens = self.audience { true } else { false } }

    /// Returns true when a device is meant.
    func reaches(_ device: SimulatedDevice, _ state: DeviceState?) -> Bool {
        guard let state, device.app == self.key.app else { return false }
        return switch self.audience {
        case .everyone: true
        case .topic(let topic): state.topics.contains(topic)
        case .subscribers(let topic, let user): state.topics.contains(topic) && state.user != user
        case .providers(let providers): providers.contains(device.provider)
        case .users(let users): users.contains(state.user)
        case .devices(let ids): ids.contains(device.id)
        case .tokens: self.names(state.token, of: device.provider)
        }
    }
}

extension SimulatedBrowser {
    /// Returns the address of a token; a browser's has its keys.
    fileprivate static func address(_ token: String, of provider: Provider) -> Address {
        var address = Address(provider: provider, token: token)
        if provider == .webpush {
            let browser = SimulatedBrowser(endpoint: token)
            address.webpushP256DH = Base64URL.decode(browser.p256dh) ?? []
            address.webpushAuth = Base64URL.decode(browser.auth) ?? []
        }
        return address
    }
}
