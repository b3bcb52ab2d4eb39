internal import ApusCore

/// Describes who looks at a page, and what the page may show. It is pure.
struct Viewer: Hashable, Sendable {
    /// The session; nil when nobody has signed in.
    var session: Session?
    /// The apps that may be read, sorted.
    var apps: [String]

    /// Returns true when the viewer may read the pages of an app.
    func mayRead(_ app: String) -> Bool { self.apps.contains(app) }

    /// Returns true when the viewer may change something of an app.
    func mayAct(_ app: String) -> Bool { self.session?.app.text == app }
}

/// A session of somebody who has shown an admin key of an app.
struct Session: Hashable, Sendable {
    /// The app.
    var app: AppID
    /// The key's name.
    var key: String
    /// The key's SHA-256, which must stay that of a key of the app.
    var keySHA256: [UInt8]
    /// The text that every form of the session carries.
    var formToken: String
    /// The time at which it began.
    var beganAt: UnixMilliseconds
    /// The time of its last request; those that keep an open page up to date do not count.
    var usedAt: UnixMilliseconds
    /// The results of its last acts, each with a number that the page after it names.
    var notices: [Notice] = []

    /// The result of an act.
    struct Notice: Hashable, Sendable {
        /// The number in the session, from 1.
        var number: Int
        /// The result in words.
        var words: String
    }
}

/// Holds the sessions of the console, by their secret. It is pure: time and secrets are arguments.
///
/// Sessions live in memory: who restarts the console signs everybody out.
struct SessionTable: Sendable {
    /// The maximum of sessions; the one that was not used for longest gives way.
    static let countMax = 1_000
    /// The time after which a session ends.
    static let lifetimeMilliseconds: Int64 = 12 * 3_600_000
    /// The time without a request of a person after which a session ends.
    static let idleMilliseconds: Int64 = 3_600_000

    /// The maximum of acts of a session whose result can still be shown, when its page is loaded again.
    static let noticesMax = 8

    private var sessions: [String: Session] = [:]

    /// The number of sessions, ended ones among them.
    var count: Int { self.sessions.count }

    /// Begins a session.
    mutating func begin(_ session: Session, secret: String) {
        if self.sessions.count >= Self.countMax,
            let oldest = self.sessions.min(by: { $0.value.usedAt < $1.value.usedAt })
        {
            self.sessions[oldest.key] = nil
        }
        self.sessions[secret] = session
    }

    /// Returns the session of a secret, without noting a use; nil when there is none, or it has ended.
    func session(_ secret: String, now: UnixMilliseconds) -> Session? {
        guard let session = self.sessions[secret],
            now.milliseconds(since: session.beganAt) < Self.lifetimeMilliseconds,
            now.milliseconds(since: session.usedAt) < Self.idleMilliseconds
        else { return nil }
        return session
    }

    /// Returns the session of a secret and notes its use; nil when there is none, or it has ended.
    mutating func use(_ secret: String, now: UnixMilliseconds) -> Session? {
        guard var session = self.session(secret, now: now) else {
            self.sessions[secret] = nil
            return nil
        }
        session.usedAt = max(session.usedAt, now)
        self.sessions[secret] = session
        return session
    }

    /// Notes what an act of a session has done, and returns its number in the session; nil when there is no such session.
    mutating func note(_ words: String, in secret: String) -> Int? {
        guard var session = self.sessions[secret] else { return nil }
        let number = (session.notices.last?.number ?? 0) + 1
        session.notices = session.notices.suffix(Self.noticesMax - 1) + [Session.Notice(number: number, words: words)]
        self.sessions[secret] = session
        return number
    }

    /// Ends a session.
    mutating func end(_ secret: String) { self.sessions[secret] = nil }
}
