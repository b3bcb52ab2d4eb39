internal import ApusCore

/// What a request's path names. Pure.
struct APIPath: Hashable {
    /// A resource of an app.
    enum Resource: Hashable {
        case device(String)
        case topic(String, device: String)
        case userDevice(String, user: String)
    }

    /// As it stands there: whether there is such an app is for the authenticator.
    let app: String
    let resource: Resource

    /// The path's template.
    var route: HTTPRoute {
        switch self.resource {
        case .device: .device
        case .topic: .topic
        case .userDevice: .userDevice
        }
    }

    /// Reads a path; what stands behind a question mark is not looked at. Nil: there is nothing there.
    init?(_ target: String) {
        let path = target.utf8.prefix { $0 != UInt8(ascii: "?") }
        let parts = path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard parts.count >= 6, parts[0].isEmpty, parts[1].elementsEqual("v1".utf8),
            parts[2].elementsEqual("apps".utf8), let app = Self.decoded(parts[3])
        else { return nil }
        self.app = app
        if parts[4].elementsEqual("devices".utf8), let device = Self.decoded(parts[5]) {
            if parts.count == 6 {
                self.resource = .device(device)
                return
            }
            guard parts.count == 8, parts[6].elementsEqual("topics".utf8), let topic = Self.decoded(parts[7]) else {
                return nil
            }
            self.resource = .topic(topic, device: device)
            return
        }
        guard parts.count == 8, parts[4].elementsEqual("users".utf8), let user = Self.decoded(parts[5]),
            parts[6].elementsEqual("devices".utf8), let device = Self.decoded(parts[7])
        else { return nil }
        self.resource = .userDevice(device, user: user)
    }

    /// A segment without its percent encoding (RFC 3986 §2.1); nil when that is broken, when nothing is left or when the
    /// bytes are no UTF-8.
    private static func decoded(_ segment: Substring.UTF8View) -> String? {
        guard !segment.isEmpty else { return nil }
        guard segment.contains(UInt8(ascii: "%")) else { return String(Substring(segment)) }
        var bytes: [UInt8] = []
        var rest = segment[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let decoded = Hexadecimal.decode(Substring(rest.prefix(2))), decoded.count == 1 else { return nil }
            bytes += decoded
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
