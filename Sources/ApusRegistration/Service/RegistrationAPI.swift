internal import ApusCore
internal import ApusRedis
internal import ApusStore
internal import ApusStreams

/// Performs each route's operations, for an identified caller that may use it.
struct RegistrationAPI: Sendable {
    let devices: DeviceAPI
    let imports: ImportAPI
    let sends: SendAPI
    let gorush: GorushAPI
    let matrix: MatrixAPI
    let events: EventAPI

    /// Answers a call.
    func answer(_ call: APICall, _ verb: HTTPVerb) async throws(ProblemDetails) -> APIResponse {
        do {
            return try await self.perform(call, verb)
        } catch let problem as ProblemDetails {
            throw problem
        } catch let error as StoreError {
            throw ProblemDetails(error)
        } catch {
            throw ProblemDetails(unexpected: error)
        }
    }

    /// Answers a Matrix homeserver's notification.
    ///
    /// - Parameters:
    ///   - apps: the apps by the app ids that homeservers name.
    ///   - address: the homeserver's; nil when it is not known.
    ///   - rates: counts devices of homeservers, and notifications of apps and push keys.
    func notify(
        _ body: [UInt8],
        _ apps: [String: AppID],
        from address: AddressCounts.Address?,
        _ rates: RequestRates,
    ) async throws(ProblemDetails) -> APIResponse {
        do {
            return try await self.matrix.notify(body, apps, from: address, rates)
        } catch let problem as ProblemDetails {
            throw problem
        } catch let error as StoreError {
            throw ProblemDetails(error)
        } catch {
            throw ProblemDetails(unexpected: error)
        }
    }

    private func perform(_ call: APICall, _ verb: HTTPVerb) async throws -> APIResponse {
        switch (call.path.route, verb) {
        case (.device, .put): try await self.devices.put(call)
        case (.device, .get): try await self.devices.get(call)
        case (.device, .patch): try await self.devices.patch(call)
        case (.device, .delete): try await self.devices.delete(call)
        case (.topics, .get): try await self.devices.topics(call)
        case (.topics, .put): try await self.devices.replaceTopics(call)
        case (.topics, .post): try await self.devices.changeTopics(call)
        case (.topic, .put): try await self.devices.subscribe(call)
        case (.topic, .delete): try await self.devices.unsubscribe(call)
        case (.activity, .put): try await self.devices.putActivity(call)
        case (.activity, .delete): try await self.devices.deleteActivity(call)
        case (.user, .delete): try await self.devices.deleteUser(call)
        case (.userDevices, .get): try await self.devices.userDevices(call)
        case (.userDevice, .put): try await self.devices.bind(call)
        case (.userDevice, .delete): try await self.devices.unbind(call)
        case (.devicesImport, .post): try await self.imports.answer(call)
        case (.test, .post): try await self.sends.test(call, self.devices)
        case (.events, .post): try await self.events.report(call, self.devices)
        case (.sends, .post): try await self.sends.publish(call)
        case (.sends, .get): try await self.sends.list(call)
        case (.send, .get): try await self.sends.status(call)
        case (.send, .patch): try await self.sends.control(call)
        case (.gorush, .post): try await self.gorush.push(call)
        default: preconditionFailure("a verb that the route does not have")
        }
    }
}
