package import ApusCore
internal import ApusDispatcher
internal import ApusFeedback
internal import ApusRegistration
internal import ApusService

/// Builds a JSON Schema of the configuration, for editors and for checks before a deployment, from the settings that the services read.
///
/// Source: https://json-schema.org/draft/2020-12/schema
package enum ConfigurationSchema {
    private typealias Leaf = (path: ArraySlice<String>, reading: SettingReading)

    /// Returns the schema.
    package static func document() throws -> JSONObject {
        let readings =
            try SettingsSource.everySetting(of: RegistrationSettings.self, for: .registration)
            + SettingsSource.everySetting(of: DispatcherSettings.self, for: .dispatcher)
            + SettingsSource.everySetting(of: FeedbackSettings.self, for: .feedback)
        var seen: Set<String> = []
        let leaves = readings.filter { seen.insert($0.key).inserted }.map { reading -> Leaf in
            (reading.key.split(separator: ".").map(String.init)[...], reading)
        }
        var document: JSONObject = [
            "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "The configuration of Apus",
        ]
        for member in Self.section(leaves).members { document[member.name] = member.value }
        return document
    }

    private static func section(_ leaves: [Leaf]) -> JSONObject {
        var order: [String] = []
        var below: [String: [Leaf]] = [:]
        for leaf in leaves {
            guard let name = leaf.path.first else { continue }
            if below[name] == nil { order.append(name) }
            below[name, default: []].append((leaf.path.dropFirst(), leaf.reading))
        }
        var properties: JSONObject = [:]
        var others = JSONValue.bool(false)
        for name in order {
            let inner = below[name] ?? []
            let schema: JSONObject
            if let leaf = inner.first(where: { $0.path.isEmpty }) {
                schema = Self.value(leaf.reading)
            } else {
                schema = Self.section(inner)
            }
            if name == "*" { others = .object(schema) } else { properties[name] = .object(schema) }
        }
        // A key without a value counts as missing.
        return [
            "type": ["object", "null"], "properties": .object(properties), "additionalProperties": others,
        ]
    }

    private static func value(_ reading: SettingReading) -> JSONObject {
        var schema = Self.form(reading.kind)
        let sentences = [SettingDescriptions.text(of: reading.key), Self.rule(reading.kind), reading.note]
            .compactMap(\.self).map { $0.prefix(1).uppercased() + $0.dropFirst() + ($0.hasSuffix(".") ? "" : ".") }
        if !sentences.isEmpty { schema["description"] = .string(sentences.joined(separator: " ")) }
        guard let defaultValue = reading.defaultValue else { return schema }
        switch reading.kind {
        case .integer, .size, .limit:
            schema["default"] = Int(defaultValue).map { .integer($0) } ?? .string(defaultValue)
        case .boolean: schema["default"] = .bool(defaultValue == "true")
        case .list: schema["default"] = .array(defaultValue.split(separator: ",").map { .string(String($0)) })
        case .text, .duration, .choice, .file: schema["default"] = .string(defaultValue)
        }
        return schema
    }

    private static func form(_ kind: SettingKind) -> JSONObject {
        switch kind {
        // Ids may consist of digits, which YAML takes for numbers.
        case .text: return ["type": ["string", "integer"]]
        case .integer(let range):
            return [
                "type": "integer", "minimum": .integer(range.lowerBound), "maximum": .integer(range.upperBound),
            ]
        case .limit: return ["anyOf": [["type": "integer", "minimum": 1], ["const": "unlimited"]]]
        case .boolean: return ["type": "boolean"]
        case .duration: return ["type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$"]
        case .size: return ["anyOf": [["type": "integer"], ["type": "string", "pattern": "^[0-9]+(KiB|MiB|GiB)$"]]]
        case .choice(let words): return ["enum": .array(words.map { .string($0) })]
        case .list: return ["type": "array", "items": ["type": ["string", "integer"]]]
        case .file: return ["type": "string"]
        }
    }

    private static func rule(_ kind: SettingKind) -> String? {
        switch kind {
        case .text(let rule): rule
        case .file: "the path of a readable file"
        default: nil
        }
    }
}
