import ApusCore
import ApusMessages
import ApusTexts
import Foundation
import Testing

@testable import ApusRegistration

/// Compares the members that the API's document names with those that the readers of bodies ask for.
@Suite struct DocumentedMembersTests {
    private static let schemas: JSONValue? =
        try? JSONValue(parsing: EmbeddedText.openAPI, bytesMax: 1 << 20, depthMax: 32)["components"]?[
            "schemas"
        ]

    /// A schema, with what it refers to in its place.
    private static func resolved(_ schema: JSONValue) -> JSONValue {
        if let name = schema["$ref"]?.string?.split(separator: "/").last {
            return Self.schemas?[String(name)].map(Self.resolved) ?? .null
        }
        return schema["anyOf"]?.array?.first { $0["$ref"] != nil || $0["type"] != nil }.map(Self.resolved) ?? schema
    }

    /// The places of all members that a schema names, and an example with all of them.
    private static func walk(_ schema: JSONValue, _ place: String) throws -> (places: Set<String>, example: JSONValue) {
        let schema = Self.resolved(schema)
        if let properties = schema["properties"]?.object {
            var (places, example) = (Set<String>(), JSONObject())
            for property in properties.members {
                let inner = try Self.walk(property.value, "\(place)/\(property.name)")
                places.formUnion(inner.places.union(["\(place)/\(property.name)"]))
                example[property.name] = inner.example
            }
            return (places, .object(example))
        }
        if let words = schema["enum"]?.array { return ([], try #require(words.first)) }
        switch schema["type"]?.string ?? schema["type"]?.array?.first?.string {
        case "array":
            let inner = try Self.walk(try #require(schema["items"]), "\(place)/0")
            return (inner.places, .array([inner.example]))
        case "integer", "number": return ([], 1)
        case "boolean": return ([], true)
        case "object": return ([], .object([:]))
        default: return ([], "x")
        }
    }

    /// Checks that each object of a schema is closed, but for the foreign ones.
    private static func checkClosed(_ schema: JSONValue, _ place: String) {
        let schema = Self.resolved(schema)
        if let properties = schema["properties"]?.object {
            let isForeign =
                place.hasSuffix("/subscription") || place.contains("/subscription/")
                || ["Gorush", "MatrixNotification"].contains(String(place.prefix { $0 != "/" }))
            #expect(isForeign || schema["additionalProperties"] == false, "\(place) takes any member")
            for property in properties.members { Self.checkClosed(property.value, "\(place)/\(property.name)") }
        } else if let items = schema["items"] {
            Self.checkClosed(items, "\(place)/0")
        }
    }

    private static func read(_ schema: String, _ body: [UInt8]) throws {
        let (app, device, now) = (try AppID("shop"), try DeviceID("d"), UnixMilliseconds(1_764_072_000_000))
        switch schema {
        case "Send": _ = try SendBody.read(body, as: .json, app: app, now: now)
        case "DeviceRegistration":
            _ = try RegistrationBody.read(body, as: .json, device: device, hosts: EndpointHosts())
        case "ImportLine":
            _ = try RegistrationBody.read(line: body, hosts: EndpointHosts(), DeviceLine.readExported)
        case "DevicePatch": _ = try DevicePatch(body)
        case "Topics": _ = try TopicChange(replacing: body)
        case "TopicChange": _ = try TopicChange(changing: body)
        case "Activity": _ = try ActivityBody.read(body, activity: "a", now: now)
        case "Events": _ = try EventsBody.read(body, app: app, device: device, now: now)
        case "TestNotification": _ = try TestBody(body)
        case "SendControl": _ = try SendControlBody(body)
        case "Gorush": _ = try GorushAPI.notifications(body)
        case "MatrixNotification": _ = try MatrixBody(body)
        default: Issue.record("no reader is known for \(schema)")
        }
    }

    /// The members that are asked for while examples are read. Most examples break rules; that is not the matter here.
    private static func asked(_ schema: String, _ examples: [JSONValue]) -> Set<String> {
        let asked = MemberReader.AskedMembers()
        MemberReader.$asked.withValue(asked) {
            for example in examples { try? Self.read(schema, Array(example.text.utf8)) }
        }
        return asked.all
    }

    @Test func `Every body of a request is documented with exactly the members that are read`() throws {
        let document = try JSONValue(parsing: EmbeddedText.openAPI, bytesMax: 1 << 20, depthMax: 32)
        var names: Set<String> = []
        for path in document["paths"]?.object?.members ?? [] {
            for operation in path.value.object?.members ?? [] {
                for content in operation.value["requestBody"]?["content"]?.object?.members ?? [] {
                    guard let reference = content.value["schema"]?["$ref"]?.string else { continue }
                    names.insert(String(reference.split(separator: "/").last ?? ""))
                }
            }
        }
        #expect(names.count == 12)
        for name in names.sorted() {
            let schema = try #require(Self.schemas?[name])
            Self.checkClosed(schema, name)
            let (places, example) = try Self.walk(schema, "#")
            var examples = [example]
            // A send has one target, so it is read once with each.
            for member in example["target"]?.object?.members ?? [] {
                var one = try #require(example.object)
                one["target"] = .object([member.name: member.value])
                examples.append(.object(one))
            }
            // Members that gorush has for iOS and for Android are read for the platform that a notification names.
            if name == "Gorush", var other = example["notifications"]?.array?.first?.object {
                other["platform"] = 2
                examples.append(["notifications": .array([.object(other)])])
            }
            var asked = Self.asked(name, examples)
            if name == "DevicePatch" { asked.subtract(DevicePatch.fixed.map { "#/\($0)" }) }
            #expect(places.subtracting(asked) == [], "\(name) documents what is not read")
            #expect(asked.subtracting(places) == [], "\(name) does not document what is read")
        }
    }

    @Test func `The article says how large each kind of body may be`() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let article = root.appending(path: "Sources/ApusRegistration/ApusRegistration.docc/HTTPAPI.md")
        let lines = try String(contentsOf: article, encoding: .utf8).split(separator: "\n")
        let row = try #require(lines.first { $0.hasPrefix("| 413") })
        let limits = [
            APILimits.bodyBytesMax, APILimits.importLineBytesMax, APILimits.sendBytesMax, APILimits.gorushBytesMax,
            APILimits.matrixBytesMax,
        ]
        for bytes in limits {
            let size = bytes < 1_048_576 ? "\(bytes / 1_024) KiB" : "\(bytes / 1_048_576) MiB"
            #expect(row.contains(size), "\(size)")
        }
    }
}
