import ApusCore
import ApusMessages
import ApusService
import ApusStreams
import ApusTestKit
import ApusTexts
import Testing

@testable import ApusRegistration

@Suite struct OpenAPITests {
    @Test func everyRouteAndNoOtherIsDescribed() async throws {
        try await Fixture.with { fixture in
            let answer = try await fixture.ask("GET", "/openapi.json", key: nil)
            #expect(answer.status == 200)
            #expect(answer.header("content-type") == "application/json")
            let document = try JSONValue(parsing: answer.body, bytesMax: 1 << 20, depthMax: 32)
            #expect(document["openapi"] == "3.1.0")
            let paths = try #require(document["paths"]?.object)
            let routes = HTTPRoute.allCases.filter { $0 != .none }
            #expect(Set(paths.members.map(\.name)) == Set(routes.map(\.template)))
            for route in routes {
                let item = try #require(paths[route.template]?.object)
                let verbs = Set(item.members.map(\.name)).subtracting(["parameters"])
                #expect(verbs == Set(route.verbs.map { $0.rawValue.lowercased() }), "\(route.template)")
                for verb in route.verbs {
                    let parameters = item[verb.rawValue.lowercased()]?["parameters"]?.array ?? []
                    let query = parameters.filter { $0["in"] == "query" }.compactMap { $0["name"]?.string }
                    #expect(query == route.queryNames(verb), "\(verb.rawValue) \(route.template)")
                }
            }
            // Every name that is referred to is there, and every name that is there is referred to.
            let text = answer.text
            let parts = text.split(separator: "#/components/schemas/").dropFirst()
            let named = Set(parts.map { String($0.prefix { $0 != "\"" }) })
            let schemas = Set(document["components"]?["schemas"]?.object?.members.map(\.name) ?? [])
            #expect(named == schemas)
        }
    }

    // MARK: Limits

    /// Compares the document with the code at one place: the end of the place's path, the keyword and the value.
    private static let limits: [(place: String, keyword: String, value: JSONValue)] = {
        func words(_ names: [String]) -> JSONValue { .array(names.map { .string($0) }) }
        func cases<Word: CaseIterable>(_ type: Word.Type) -> JSONValue {
            words(Word.allCases.map { SnakeCase.name(of: $0) })
        }
        let (device, topic) = (
            "^[!-~]{1,\(Limits.deviceIDBytesMax)}$", "^[a-zA-Z0-9_.~%-]{1,\(Limits.topicNameBytesMax)}$"
        )
        let send = "^[A-Za-z0-9._:-]{1,\(Limits.sendIDBytesMax)}$"
        let providers = words(Provider.allCases.map(\.name))
        return [
            // Of paths, queries and headers.
            ("{app}", "pattern", .string("^[a-z0-9-]{1,\(Limits.appIDBytesMax)}$")),
            ("{device}", "pattern", .string(device)), ("{user}", "pattern", .string(device)),
            ("{activity}", "pattern", .string(device)), ("{topic}", "pattern", .string(topic)),
            ("{send}", "pattern", .string(send)), ("{device}/not", "enum", [".", ".."]),
            ("{user}/not", "enum", [".", ".."]),
            ("{activity}/not", "enum", [".", ".."]), ("lane", "enum", words(Lane.allCases.map(\.name))),
            ("limit", "maximum", .integer(StreamLimits.sendsPerPageMax)),
            ("cursor", "pattern", .string("^[0-9]{1,15}-" + send.dropFirst())),
            ("search", "pattern", .string(send)), ("state", "enum", words(SendLists.State.allCases.map(\.rawValue))),
            ("Idempotency-Key", "maxLength", .integer(Limits.idempotencyKeyBytesMax)),
            ("Idempotency-Key", "pattern", "^[!-~]+$"),
            ("If-Match", "pattern", #"^(\*|"[!#-~]+"(, "[!#-~]+")*)$"#),
            ("If-None-Match", "pattern", #"^(\*|"[!#-~]+"(, "[!#-~]+")*)$"#),
            // Of many schemas.
            ("provider", "enum", providers), ("everyone/providers[]", "enum", providers),
            ("environment", "enum", words(ProviderEnvironment.allCases.map(\.name))),
            ("token_kind", "enum", words(TokenKind.allCases.map(\.name))),
            ("user", "pattern", .string("^[!-~]{0,\(Limits.userIDBytesMax)}$")),
            ("topics[]", "pattern", .string(topic)), ("subscribe[]", "pattern", .string(topic)),
            ("unsubscribe[]", "pattern", .string(topic)), ("topics", "maxItems", .integer(Limits.topicsPerDeviceMax)),
            ("subscribe", "maxItems", .integer(Limits.topicsPerDeviceMax)),
            ("unsubscribe", "maxItems", .integer(Limits.topicsPerDeviceMax)),
            ("badge", "maximum", .integer(Limits.badgeMax)), ("_ms", "maximum", .integer(Limits.timeMax.value)),
            ("title", "maxLength", .integer(Limits.textBytesMax)),
            ("subtitle", "maxLength", .integer(Limits.textBytesMax)),
            ("body", "maxLength", .integer(Limits.textBytesMax)),
            // Of one.
            ("Problem/type", "enum", words(ProblemDetails.Kind.allCases.map(\.type))),
            ("PushSubscription/endpoint", "maxLength", 2_048),
            ("PushSubscription/expirationTime", "maximum", .integer(Limits.timeMax.value)),
            ("Attributes/locale", "maxLength", .integer(Limits.localeBytesMax)),
            ("Attributes/locale", "pattern", "^$|^([a-zA-Z]{2,8}|[xXiI](?=-))(-[a-zA-Z0-9]{1,8})*$"),
            ("Attributes/time_zone", "maxLength", .integer(Limits.timeZoneBytesMax)),
            ("Attributes/app_version", "maxLength", .integer(Limits.appVersionBytesMax)),
            ("Attributes/country", "maxLength", .integer(Limits.countryBytesMax)),
            ("Attributes/tags[]", "maxLength", .integer(Limits.tagBytesMax)),
            ("Attributes/tags", "maxItems", .integer(Limits.tagsPerDeviceMax)),
            ("WebPushKey/application_server_key", "pattern", "^[A-Za-z0-9_-]{87}$"),
            ("DeviceRegistration/token", "maxLength", .integer(Limits.tokenBytesMax)),
            ("ImportLine/token", "maxLength", .integer(Limits.tokenBytesMax)),
            ("Notification/android_style", "enum", cases(Notification.FCMStyle.self)),
            ("Notification/fcm_apns_style", "enum", cases(Notification.FCMStyle.self)),
            ("Notification/fcm_webpush_style", "enum", cases(Notification.FCMStyle.self)),
            ("Notification/live_activity/event", "enum", cases(Notification.LiveActivity.Event.self)),
            ("Device/activities[]/kind", "enum", words(ActivityBody.kinds.map(\.name))),
            ("Activity/kind", "enum", words(ActivityBody.kinds.map(\.name))),
            ("Activity/token", "pattern", "^([0-9a-fA-F]{2}){1,200}$"),
            ("Events/events", "maxItems", .integer(APILimits.eventsMax)),
            ("Events/events[]/id", "maxLength", .integer(Limits.nameBytesMax)),
            ("Events/events[]/send", "pattern", .string(send)),
            ("Events/events[]/kind", "enum", cases(ClientEvent.Kind.self)),
            ("Events/events[]/action", "maxLength", .integer(Limits.nameBytesMax)),
            ("Send/id", "pattern", .string(send)),
            ("Send/idempotency_key", "maxLength", .integer(Limits.idempotencyKeyBytesMax)),
            ("Send/reply_to", "maxLength", .integer(Limits.replyToBytesMax)),
            ("Send/receipt_level", "enum", cases(SendCommand.ReceiptLevel.self)),
            ("Send/delivery", "enum", cases(SendCommand.Delivery.self)),
            ("Send/rate_per_second", "maximum", .integer(UInt32.max)),
            ("Target/addresses[]/kind", "enum", words(TokenKind.allCases.map(\.name))),
            ("Target/addresses", "maxItems", .integer(Limits.recipientsMax)),
            ("Target/devices", "maxItems", .integer(Limits.recipientsMax)),
            ("Target/users", "maxItems", .integer(Limits.recipientsMax)),
            ("Target/condition", "maxLength", .integer(Limits.expressionBytesMax)),
            ("Target/expression", "maxLength", .integer(Limits.expressionBytesMax)),
            ("Target/fcm_condition", "maxLength", .integer(Limits.expressionBytesMax)),
            ("Target/fcm_group", "maxLength", .integer(Limits.tokenBytesMax)),
            ("Gorush/notifications[]/platform", "enum", [1, 2, 3]),
            ("Gorush/notifications[]/priority", "enum", ["high", "normal"]),
            (
                "Gorush/notifications[]/push_type", "enum",
                [
                    "alert", "background", "complication", "fileprovider", "liveactivity", "location", "mdm",
                    "pushtotalk",
                    "voip",
                ]
            ),
            (
                "Gorush/notifications[]/interruption_level", "enum",
                ["active", "critical", "passive", "time-sensitive"]
            ),
            ("Gorush/notifications[]/event", "enum", ["start", "update", "end"]),
            ("Notification/kind", "enum", cases(Notification.Kind.self)),
            ("Notification/image", "maxLength", .integer(Limits.urlBytesMax)),
            ("Notification/badge_set", "maximum", .integer(Limits.badgeMax)),
            ("Notification/badge_increment", "maximum", .integer(Limits.badgeMax)),
            ("Notification/priority", "enum", cases(Notification.Priority.self)),
            ("Notification/interruption_level", "enum", cases(Notification.InterruptionLevel.self)),
            ("Notification/variants", "maxItems", .integer(Limits.localeVariantsMax)),
            (
                "SendStatus/state", "enum",
                ["waiting", "scheduled", "planning", "running", "paused", "cancelled", "done", "refused"]
            ),
            (
                "ListedSend/state", "enum",
                ["waiting", "scheduled", "planning", "running", "paused", "cancelled", "done", "refused"]
            ),
            ("ListedSend/counts[]/outcome", "enum", words(Outcome.allCases.map(\.name))),
            ("SendControl/state", "enum", ["running", "paused", "cancelled"]),
            ("SendControl/rate_per_second", "maximum", .integer(UInt32.max)),
            ("SendStatus/obstacles[]/service", "enum", words(SendAPI.neededServices.map(\.rawValue))),
            (
                "SendStatus/obstacles[]/code", "enum",
                words(SendAPI.ServiceObstacle.allCases.map(\.rawValue) + RouteObstacle.Code.allCases.map(\.rawValue))
            ),
            ("SendStatus/counts[]/outcome", "enum", words(Outcome.allCases.map(\.name))),
            ("Receipts/receipts[]/kind", "enum", cases(SendReceipt.Kind.self)),
            ("Receipts/receipts[]/counts[]/outcome", "enum", words(Outcome.allCases.map(\.name))),
            ("Receipts/receipts[]/recipients[]/outcome", "enum", words(Outcome.allCases.map(\.name))),
            ("by_provider[]/provider", "enum", .array(Provider.allCases.map { .string($0.name) } + [.null])),
            ("by_provider[]/kind", "enum", words(ClientEvent.Kind.allCases.map(\.name))),
        ]
    }()

    /// Each limit of a schema and of all within it: its path of properties, the keyword and the value.
    private func limits(_ schema: JSONValue, _ path: String) -> [(path: String, keyword: String, value: JSONValue)] {
        var found: [(String, String, JSONValue)] = []
        for member in schema.object?.members ?? [] {
            switch member.name {
            case "maxLength", "maxItems", "maximum", "enum", "pattern": found.append((path, member.name, member.value))
            case "properties":
                for property in member.value.object?.members ?? [] {
                    found += self.limits(property.value, "\(path)/\(property.name)")
                }
            case "items": found += self.limits(member.value, path + "[]")
            case "not": found += self.limits(member.value, path + "/not")
            case "anyOf", "allOf": for part in member.value.array ?? [] { found += self.limits(part, path) }
            default: break
            }
        }
        return found
    }

    @Test func `Every limit and every closed set of words equals that of the code`() throws {
        let document = try JSONValue(parsing: EmbeddedText.openAPI, bytesMax: 1 << 20, depthMax: 32)
        var found: [(path: String, keyword: String, value: JSONValue)] = []
        for schema in document["components"]?["schemas"]?.object?.members ?? [] {
            found += self.limits(schema.value, schema.name)
        }
        for path in document["paths"]?.object?.members ?? [] {
            let operations = path.value.object?.members ?? []
            for parameter in operations.flatMap({ $0.value["parameters"]?.array ?? $0.value.array ?? [] }) {
                let name = try #require(parameter["name"]?.string)
                let isOfPath = parameter["in"] == "path"
                found += self.limits(try #require(parameter["schema"]), isOfPath ? "{\(name)}" : name)
            }
        }
        var used: Set<Int> = []
        for limit in found {
            // The most exact place counts.
            let index = Self.limits.indices.filter { index in
                let (place, keyword, _) = Self.limits[index]
                return keyword == limit.keyword
                    && (limit.path == place || limit.path.hasSuffix(place.hasPrefix("_") ? place : "/" + place))
            }.max { Self.limits[$0].place.count < Self.limits[$1].place.count }
            let found = try #require(index, "\(limit.path) has a limit that no test knows: \(limit.keyword)")
            used.insert(found)
            #expect(limit.value == Self.limits[found].value, "\(limit.path): \(limit.keyword)")
        }
        for index in Self.limits.indices where !used.contains(index) {
            Issue.record("nothing is limited at \(Self.limits[index].place): \(Self.limits[index].keyword)")
        }
        let kinds = Set(
            document["components"]?["schemas"]?["SendStatus"]?["properties"]?.object?.members.map(\.name) ?? []
        )
        #expect(kinds.isSuperset(of: Outcome.allCases.map(\.name)))
    }
}
