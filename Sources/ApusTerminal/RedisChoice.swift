internal import ApusCore
internal import ApusInstallation
package import ApusRedis
package import ApusService
internal import ApusStreams

/// Decides which Redis a command uses, in this order: `--redis`; `--config`; `--context`; the environment (`APUS_REDIS_URL`,
/// `APUS_CONFIG`); `APUS_CONTEXT`; the current context; the services' default file; the default address. Pure, but for the files it reads.
///
/// A configuration is read as the services read it, with its user, password and CA. An address given by `--redis` is complete: what the
/// configuration says of another server's user is not sent there; its CA counts, because it names whom to trust.
package struct RedisChoice: Sendable {
    /// Names the origin of the address, as errors show it.
    package let origin: String
    /// The services' configuration that commands read beside. Beside a context it is the context's file, and beside `--redis` alone there is none:
    /// the environment and the default file may be those of another installation.
    package let settings: SettingsSource
    /// Tells how to name the services' configuration, for who has none.
    package let cure: String
    /// Tells that the address of the environment does not count, where another one does; nil otherwise.
    package let note: String?
    private let way: Way

    private enum Way: Sendable {
        case address(String, SettingsSource)
        case context(InstallationContext)
        case settings(SettingsSource)
    }

    private static let cure = "name the services' configuration with --config"

    /// Chooses.
    ///
    /// - Parameters:
    ///   - redis: the value of `--redis`.
    ///   - context: the value of `--context`.
    ///   - config: the value of `--config`.
    /// - Throws: `CommandFailure` when there is no such context.
    package init(
        redis: String?,
        context: String?,
        config: String?,
        environment: [String: String],
    ) throws(CommandFailure) {
        let services = SettingsSource(given: config, environment: environment)
        let (source, note) = Self.redis(of: services, config)
        if let redis {
            guard context == nil else {
                throw CommandFailure("--redis and --context name two installations: give one of them")
            }
            (self.origin, self.cure, self.note) = ("--redis", Self.cure, nil)
            self.settings = config == nil ? SettingsSource(file: nil, environment: [:]) : services
            self.way = .address(redis, source)
            return
        }
        if config == nil, let (name, chosen) = try Self.context(context, environment) {
            self = RedisChoice(of: chosen, named: name)
            return
        }
        (self.settings, self.cure, self.note) = (services, Self.cure, note)
        self.way = .settings(source)
        if source.environment[RedisAccess.variable] != nil {
            self.origin = RedisAccess.variable
        } else {
            self.origin = source.file ?? "the default address"
        }
    }

    /// Returns the settings of Redis by the value of `--config`, and a note if they are without the address of the environment. Another one in
    /// a file which is named there counts before it, and then also without the other variables for Redis: they are of the environment's server.
    private static func redis(of services: SettingsSource, _ config: String?) -> (SettingsSource, note: String?) {
        guard let config, let other = services.environment[RedisAccess.variable] else { return (services, nil) }
        // A file that cannot be read is named when it is used.
        let address = try? SettingsSource(file: config, environment: [:]).loadPart { $0.string("redis.url") }
        // Beside the same address they are of the same server.
        guard let address, address != other else { return (services, nil) }
        var source = services
        source.environment = source.environment.filter { !$0.key.hasPrefix("APUS_REDIS_") }
        return (source, "\(RedisAccess.variable) is not used: the address is from \(config)")
    }

    /// Chooses a context.
    package init(of context: InstallationContext, named name: String) {
        self.origin = "the context \(name)"
        self.settings = SettingsSource(file: context.config, environment: [:])
        self.cure = "give the context its configuration: apus context add \(name) … --config FILE"
        self.note = nil
        self.way = .context(context)
    }

    /// Returns the context that counts, if one does.
    private static func context(
        _ given: String?,
        _ environment: [String: String],
    ) throws(CommandFailure) -> (name: String, context: InstallationContext)? {
        if given == nil, environment[RedisAccess.variable] != nil || environment[SettingsReader.fileVariable] != nil {
            return nil
        }
        let file = try ContextFile(environment: environment)
        guard let name = given ?? environment[SettingsReader.contextVariable] ?? file.current else { return nil }
        return (name, try file.context(name))
    }

    /// Gives an installation the keys that its records of devices are encrypted with, as its configuration names them. Who may not read
    /// them, or names no configuration although its services have keys, can do everything but what needs them.
    func giveKeys(to installation: Installation) async {
        let keys: [[UInt8]]
        do throws(SettingsError) {
            keys = try self.settings.loadStore().encryptionKeys
        } catch {
            installation.lackRecordKeys(because: error.sentence)
            return
        }
        installation.setRecordKeys(keys)
        guard keys.isEmpty else { return }
        do {
            let processes = try await installation.streams.processes.all(patience: Installation.originalPatience)
            guard processes.contains(where: \.encryptsRecords) else { return }
            let name = "store.encryption_key_file, which services of this installation have,"
            installation.lackRecordKeys(because: "\(name) is not configured here: \(self.cure)")
        } catch {
            installation.lackRecordKeys(
                because: "it cannot be read whether services encrypt records of devices: \(error)"
            )
        }
    }

    /// Returns the configuration of a client.
    ///
    /// - Throws: `CommandFailure` when the address is wrong, or a file that it needs cannot be read.
    package func configuration() throws(CommandFailure) -> RedisConfiguration {
        do {
            switch self.way {
            case .settings(let source):
                return try RedisConfiguration(try source.loadRedis(), clientName: RedisAccess.clientName)
            case .address(let url, let source):
                var configuration = try RedisConfiguration(url: url, clientName: RedisAccess.clientName)
                if let tls = configuration.tls, tls.certificateAuthorityFile == nil,
                    let caFile = try? source.loadRedis().caFile
                {
                    configuration.tls = RedisConfiguration.TLS(
                        certificateAuthorityFile: caFile,
                        serverName: tls.serverName
                    )
                }
                return configuration
            case .context(let context):
                // The environment names another installation.
                var own: [String: String] = [:]
                let names = [
                    "URL": context.redis, "USER": context.user, "PASSWORD_FILE": context.passwordFile,
                    "CA_FILE": context.caFile,
                ]
                for (name, value) in names { if let value { own["APUS_REDIS_\(name)"] = value } }
                let source = SettingsSource(file: context.config, environment: own)
                return try RedisConfiguration(try source.loadRedis(), clientName: RedisAccess.clientName)
            }
        } catch let error as SettingsError {
            throw CommandFailure(error.issues.map { "\($0)" }.joined(separator: "; "))
        } catch let error as RedisError {
            throw CommandFailure("\(error.message) (the address is from \(self.origin))")
        } catch {
            throw CommandFailure(SystemErrorText.words(of: error))
        }
    }
}
