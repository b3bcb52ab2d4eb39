import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusRegistration
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

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
            }
            // Every name that is referred to is there, and every name that is there is referred to.
            let text = answer.text
            let parts = text.split(separator: "#/components/schemas/").dropFirst()
            let named = Set(parts.map { String($0.prefix { $0 != "\"" }) })
            let schemas = Set(document["components"]?["schemas"]?.object?.members.map(\.name) ?? [])
            #expect(named == schemas)
        }
    }
}
