internal import ApusCore
internal import HTTPTypes

/// The description of the API in OpenAPI 3.1 (https://spec.openapis.org/oas/v3.1.0), made of the table that requests are routed
/// by.
enum OpenAPIDocument {
    /// What `GET /openapi.json` answers.
    static let answer = APIResponse.json(.ok, Self.document)

    /// The whole.
    static let document: JSONObject = [
        "openapi": "3.1.0",
        "info": [
            "title": "Apus registration",
            "version": "1",
            "description": "Devices, users, topics, events and sends of an app. Errors are RFC 9457.",
        ],
        "security": [["bearer": []]],
        "paths": .object(Self.paths),
        "components": [
            "securitySchemes": [
                "bearer": [
                    "type": "http", "scheme": "bearer",
                    "description": "A backend's API key, or a JWT of the app's identity provider for a user.",
                ]
            ],
            "schemas": .object(OpenAPISchemas.all),
        ],
    ]

    private static var paths: JSONObject {
        var paths: JSONObject = [:]
        for route in HTTPRoute.allCases where route != .none {
            var item: JSONObject = [:]
            let parameters = Self.parameters(route)
            if !parameters.isEmpty { item["parameters"] = .array(parameters) }
            for verb in route.verbs {
                guard let operation = OpenAPIOperation.of(route, verb) else {
                    preconditionFailure("\(verb) of \(route) is not described")
                }
                item[verb.rawValue.lowercased()] = .object(Self.object(operation, route))
            }
            paths[route.template] = .object(item)
        }
        return paths
    }

    private static func parameters(_ route: HTTPRoute) -> [JSONValue] {
        route.template.split(separator: "/").filter { $0.hasPrefix("{") }.map { part in
            let name = String(part.dropFirst().dropLast())
            return [
                "name": .string(name), "in": "path", "required": true,
                "schema": .object(OpenAPISchemas.identifier(name)),
            ]
        }
    }

    private static func object(_ operation: OpenAPIOperation, _ route: HTTPRoute) -> JSONObject {
        var object: JSONObject = [
            "operationId": .string(operation.name), "summary": .string(operation.summary),
        ]
        if route.access == .everyone { object["security"] = [] }
        let parameters = Self.headers(operation)
        if !parameters.isEmpty { object["parameters"] = .array(parameters) }
        if let request = operation.request {
            object["requestBody"] = [
                "required": .bool(request.isRequired), "content": .object(Self.content(request)),
            ]
        }
        var responses: JSONObject = [:]
        for success in operation.successes { responses[String(success.status)] = .object(Self.response(success)) }
        if operation.isCacheable {
            responses["304"] = ["description": "It is as the asker has it.", "headers": .object(Self.etagHeader)]
        }
        for kind in Self.problems(operation, route) {
            var response: JSONObject = [
                "description": .string(kind.title),
                "content": ["application/problem+json": ["schema": ["$ref": "#/components/schemas/Problem"]]],
            ]
            if kind == .tooManyRequests || kind == .unavailable {
                response["headers"] = [
                    "Retry-After": ["required": true, "schema": ["type": "integer", "minimum": 0]]
                ]
            }
            responses[String(kind.status.code)] = .object(response)
        }
        object["responses"] = .object(responses)
        return object
    }

    /// In the order of their status codes.
    private static func problems(_ operation: OpenAPIOperation, _ route: HTTPRoute) -> [ProblemDetails.Kind] {
        guard route.access != .everyone else { return [] }
        let always: Set<ProblemDetails.Kind> = [
            .malformedRequest, .unauthorized, .forbidden, .notFound, .tooManyRequests, .unavailable,
        ]
        return ProblemDetails.Kind.allCases.filter { always.contains($0) || operation.problems.contains($0) }
            .sorted { $0.status.code < $1.status.code }
    }

    private static func headers(_ operation: OpenAPIOperation) -> [JSONValue] {
        func header(_ name: String, _ text: String, _ schema: JSONObject) -> JSONValue {
            ["name": .string(name), "in": "header", "description": .string(text), "schema": .object(schema)]
        }
        let tags: JSONObject = ["type": "string", "pattern": #"^(\*|"[!#-~]+"(, "[!#-~]+")*)$"#]
        var headers: [JSONValue] = []
        if operation.isConditional {
            headers.append(header("If-Match", "Only if the device is in one of these states; `*`: in any.", tags))
            headers.append(header("If-None-Match", "`*`: only if it is not there.", ["const": "*"]))
        }
        if operation.isCacheable { headers.append(header("If-None-Match", "States that the asker has.", tags)) }
        if operation.hasIdempotencyKey {
            headers.append(
                header(
                    "Idempotency-Key",
                    "Stands for the send's id.",
                    ["type": "string", "maxLength": .integer(Limits.idempotencyKeyBytesMax), "pattern": "^[!-~]+$"],
                )
            )
        }
        if operation.hasLane {
            headers.append([
                "name": "lane", "in": "query", "description": "express: a person waits. Audiences are bulk always.",
                "schema": ["enum": ["express", "bulk"]],
            ])
        }
        return headers
    }

    private static func response(_ success: OpenAPIOperation.Success) -> JSONObject {
        var response: JSONObject = ["description": .string(success.text)]
        if let content = success.content { response["content"] = .object(Self.content(content)) }
        var headers: JSONObject = [:]
        if success.hasETag { headers = Self.etagHeader }
        if success.hasLocation { headers["Location"] = ["required": true, "schema": ["type": "string"]] }
        if !headers.isEmpty { response["headers"] = .object(headers) }
        return response
    }

    private static let etagHeader: JSONObject = ["ETag": ["required": true, "schema": ["type": "string"]]]

    private static func content(_ content: OpenAPIOperation.Content) -> JSONObject {
        var types: JSONObject = [:]
        for type in content.types {
            let schema: JSONValue = ["$ref": .string("#/components/schemas/\(content.json)")]
            switch type {
            // The messages of Protos/apus/v1, which a schema of JSON cannot describe.
            case .protobuf: types[type.name] = ["schema": ["type": "string", "contentMediaType": .string(type.name)]]
            // Of a line: OpenAPI 3.1 has no word for a sequence of values.
            case .ndjson, .json, .mergePatch: types[type.name] = ["schema": schema]
            }
        }
        return types
    }
}
