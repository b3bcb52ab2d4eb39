package import ApusCore
package import ApusMessages
package import ApusProviders

/// The route of an app to browsers.
package struct WebPushRoute: ProviderRoute {
    package let route: Route
    package let rate: RouteRate
    private let renderer: WebPushRenderer

    init(_ route: Route, _ settings: WebPushSettings) {
        self.route = route
        self.rate = settings.ratePerSecond.map { .perSecond(Double($0)) } ?? .unlimited
        self.renderer = WebPushRenderer(isDeclarative: settings.isDeclarative)
    }

    package func render(
        _ command: SendCommand,
        _ context: RenderContext,
        sharing: inout (any Sendable)?,
    ) throws(Problem) -> RenderedRoute {
        let messages = try self.renderer.render(command.notification, context: context)
        return RenderedRoute(
            messages: messages.map { PreparedMessage(addressed: $0, body: $0.body) },
            tokenKinds: TokenKinds([.device]),
        )
    }

    /// Returns nil: a push service can only be asked with a subscription, and whoever has one would get the message.
    package func credentialProbe(
        for configuration: GatewayConfiguration,
        _ context: RenderContext,
    ) throws -> (message: PreparedMessage, token: [UInt8])? { nil }

    package func preview(_ command: SendCommand, _ context: RenderContext) throws -> [RouteRendering] {
        let notification = command.notification
        let messages = try self.renderer.render(notification, context: context).variants
        return zip([""] + notification.variants.map(\.locale), messages).map { locale, message in
            RouteRendering(
                route: self.route,
                locale: locale,
                headers: message.headers,
                body: message.body,
                payloadBytes: message.body.bytesMax,
                payloadBytesMax: WebPushEncryption.contentBytesMax,
            )
        }
    }
}
