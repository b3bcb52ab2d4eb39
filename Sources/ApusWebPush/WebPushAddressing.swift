internal import ApusCore
internal import ApusHTTP2
internal import ApusMessages
internal import ApusProviders
internal import ApusTLS

/// Reaches browsers: each by the address of its subscription, with content encrypted for it.
struct WebPushAddressing: RecipientAddressing {
    let credential: VAPIDCredential
    let hosts: EndpointHosts
    /// Hosts that the configuration names, which may lead to private addresses.
    let namedHosts: EndpointHosts?
    let connectsTo: WebAddress?
    let verdicts = OriginVerdicts()

    /// Returns the origin of an endpoint whose host is in the list, at a path where it takes messages for browsers: registration has checked it too, perhaps by another list.
    func origin(of recipient: Span<UInt8>) -> Origin? {
        guard recipient.count > RecipientKeys.byteCount else { return nil }
        let address = recipient.extracting(0..<recipient.count - RecipientKeys.byteCount)
        let text = address.indices.reduce(into: [UInt8]()) { $0.append(address[$1]) }
        guard let endpoint = WebPushEndpoint(String(decoding: text, as: UTF8.self)),
            endpoint.origin.port == WebAddress.securePort, self.hosts.contains(endpoint.origin.host),
            self.hosts.takesMessages(endpoint.origin.host, at: endpoint.path)
        else { return nil }
        // Any key will do here: the app has none that fits, so no request is made.
        let serverKey = recipient.extracting(recipient.count - Limits.webpushP256DHBytes..<recipient.count)
        let index = self.credential.index(ofPublicPoint: serverKey) ?? 0
        return Origin(host: endpoint.origin.host, port: endpoint.origin.port, credential: index)
    }

    func exists(_ host: String) -> Bool { self.namedHosts?.names(host) ?? false || EndpointHosts.isService(host) }

    func trust(in host: String) -> HostTrust {
        if self.namedHosts?.contains(host) ?? false { return .named }
        return EndpointHosts().contains(host) ? .known : .unknown
    }

    func credential(for origin: Origin) -> any ProviderCredential { self.credential.credential(for: origin) }

    func request(_ message: any Sendable, to recipient: [UInt8], badge: UInt32) -> AddressedRequest {
        guard let message = message as? RenderedWebPushMessage else {
            preconditionFailure("a message of another provider")
        }
        guard let found = RecipientKeys(of: recipient),
            let keys = WebPushKeys(publicKey: found.publicKey, secret: found.secret),
            let endpoint = WebPushEndpoint(String(decoding: RecipientKeys.address(of: recipient), as: UTF8.self))
        else { return .refused(.suspect(.badToken), reason: "not a subscription") }
        if let serverKey = found.serverKey, self.credential.index(ofPublicPoint: serverKey.span) == nil {
            return .refused(
                .suspect(.wrongSender),
                reason: "the browser subscribed with a VAPID key that the app does not have"
            )
        }
        if let breach = message.breach(at: endpoint.origin) { return .refused(.rejected(.payload), reason: breach) }
        do {
            let body = try WebPushEncryption.encrypt(message.body.bytes(badge: badge), to: keys)
            var headers: [HeaderField] = []
            for header in message.headers(for: endpoint.origin) {
                headers.append(try HeaderField(header.name, header.value))
            }
            headers.append(try HeaderField("content-length", String(body.count)))
            return .request(path: endpoint.path, headers: headers, body: body)
        } catch {
            return .refused(.suspect(.badToken), reason: "cannot be encrypted for the subscription: \(error)")
        }
    }
}
