internal import ApusCore

/// Names a page of one app.
enum AppPage: String, CaseIterable, Sendable {
    case sends
    case compose
    case devices
    case topics
    case routes
    case deadLetters = "dead-letters"
    case quarantine
    case audit

    /// The name in the navigation.
    var title: String {
        switch self {
        case .sends: "Sends"
        case .compose: "Compose"
        case .devices: "Devices"
        case .topics: "Audiences"
        case .routes: "Routes"
        case .deadLetters: "Dead letters"
        case .quarantine: "Quarantine"
        case .audit: "Audit"
        }
    }
}

/// Names what a request asks for. It is pure.
enum ConsolePath: Hashable, Sendable {
    /// The overview.
    case overview
    /// The form for signing in.
    case signIn
    /// The end of a session.
    case signOut
    /// The events that keep a page up to date.
    case live
    /// A style sheet, script or picture.
    case asset(String)
    /// A page of an app.
    case app(AppID, AppPage)
    /// One send of an app.
    case send(AppID, SendID)

    /// Reads the path of a request, without its query; nil when there is no such page.
    init?(_ path: some StringProtocol) {
        let parts = Substring(path).split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(String.init)
        switch parts.count {
        case 1 where parts[0].isEmpty: self = .overview
        case 1 where parts[0] == "sign-in": self = .signIn
        case 1 where parts[0] == "sign-out": self = .signOut
        case 1 where parts[0] == "live": self = .live
        case 2 where parts[0] == "assets": self = .asset(parts[1])
        case 3 where parts[0] == "apps":
            guard let app = try? AppID(parts[1]), let page = AppPage(rawValue: parts[2]) else { return nil }
            self = .app(app, page)
        case 4 where parts[0] == "apps" && parts[2] == AppPage.sends.rawValue:
            guard let app = try? AppID(parts[1]), let send = try? SendID(parts[3]) else { return nil }
            self = .send(app, send)
        default: return nil
        }
    }

    /// The app of the page; nil when it has none.
    var app: AppID? {
        switch self {
        case .overview, .signIn, .signOut, .live, .asset: nil
        case .app(let app, _), .send(let app, _): app
        }
    }

    /// The page of the app in the navigation; nil for the overview and pages outside of it.
    var page: AppPage? {
        switch self {
        case .overview, .signIn, .signOut, .live, .asset: nil
        case .app(_, let page): page
        case .send: .sends
        }
    }

    /// The path.
    var text: String {
        switch self {
        case .overview: "/"
        case .signIn: "/sign-in"
        case .signOut: "/sign-out"
        case .live: "/live"
        case .asset(let name): "/assets/\(name)"
        case .app(let app, let page): "/apps/\(app)/\(page.rawValue)"
        case .send(let app, let send): "/apps/\(app)/sends/\(send)"
        }
    }
}
