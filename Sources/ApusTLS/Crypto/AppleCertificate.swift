package import ApusCore

/// The topics and environments of a certificate of Apple's push service.
///
/// Apple: a certificate serves the topics in its extensions 1.2.840.113635.100.6.3.6 and 1.2.840.113635.100.6.3.4
/// (https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns). A certificate
/// for both environments has both marks
/// (https://developer.apple.com/documentation/usernotifications/establishing-a-certificate-based-connection-to-apns);
/// their numbers are those that other clients read (https://github.com/parse-community/node-apn).
package struct AppleCertificate: Hashable, Sendable {
    /// The extension that marks development push.
    private static let developmentMark = "1.2.840.113635.100.6.3.1"
    /// The extension that marks production push.
    private static let productionMark = "1.2.840.113635.100.6.3.2"
    /// The extension of VoIP topics.
    private static let voipTopics = "1.2.840.113635.100.6.3.4"
    /// The extension with a list of topics, each with the names of its services.
    private static let topicList = "1.2.840.113635.100.6.3.6"

    /// The topics that the certificate serves, with their suffixes; the subject's UID, the app's bundle id, is the first.
    package let topics: [String]
    /// The environments that the certificate is for: both when it names none.
    package let environments: Set<ProviderEnvironment>

    /// Parses a certificate.
    package init(_ certificate: Certificate) {
        var topics = certificate.userID.map { [$0] } ?? []
        for identifier in [Self.topicList, Self.voipTopics] {
            for topic in certificate.extensionValue(identifier).map(Self.texts(in:)) ?? []
            where !topics.contains(topic) { topics.append(topic) }
        }
        self.topics = topics
        var environments: Set<ProviderEnvironment> = []
        if certificate.extensionValue(Self.developmentMark) != nil { environments.insert(.sandbox) }
        if certificate.extensionValue(Self.productionMark) != nil { environments.insert(.production) }
        self.environments = environments.isEmpty ? Set(ProviderEnvironment.allCases) : environments
    }

    /// Returns the extensions of a certificate for the given topics and environments, as the simulator issues them.
    package static func extensions(
        topics: [String],
        environments: Set<ProviderEnvironment>,
    ) -> [CertificateExtension] {
        let null: [UInt8] = [0x05, 0x00]
        var extensions: [CertificateExtension] = []
        if environments.contains(.sandbox) {
            extensions.append(CertificateExtension(identifier: Self.developmentMark, value: null))
        }
        if environments.contains(.production) {
            extensions.append(CertificateExtension(identifier: Self.productionMark, value: null))
        }
        let list = topics.flatMap { topic in DER.text(topic) + DER.sequence(DER.text("app")) }
        extensions.append(CertificateExtension(identifier: Self.topicList, value: DER.sequence(list)))
        return extensions
    }

    /// Returns the UTF-8 texts that are direct elements of a sequence; those nested deeper name services. Anything but a sequence has none.
    private static func texts(in der: [UInt8]) -> [String] {
        var outer = DERReader(der)
        guard let (tag, content) = outer.next() else { return [] }
        guard tag == 0x30 else { return tag == 0x0c ? [String(decoding: content, as: UTF8.self)] : [] }
        var inner = DERReader(Array(content))
        var texts: [String] = []
        while let (tag, content) = inner.next() {
            if tag == 0x0c { texts.append(String(decoding: content, as: UTF8.self)) }
        }
        return texts
    }
}
