import ApusRedis
import Testing

@Suite("Redis addresses")
struct RedisConfigurationTests {
    @Test("a plain address")
    func plain() throws {
        let configuration = try RedisConfiguration(url: "redis://cache.example")
        #expect(configuration.endpoint == .host("cache.example", port: 6_379))
        #expect(configuration.password == nil && configuration.username == nil && configuration.tls == nil)
    }

    @Test("user and password may be encoded, and a password may hold an @")
    func credentials() throws {
        let configuration = try RedisConfiguration(url: "redis://dis%70atcher:p%40s%3As@x@[::1]:7000/0")
        #expect(configuration.username == "dispatcher")
        #expect(configuration.password == "p@s:s@x")
        #expect(configuration.endpoint == .host("::1", port: 7_000))
        #expect(configuration.description == "redis://dispatcher@[::1]:7000")
        #expect(try RedisConfiguration(url: "redis://:secret@h").password == "secret")
    }

    @Test("TLS with its settings")
    func tls() throws {
        let configuration = try RedisConfiguration(
            url: "rediss://u:p@h:1?ca=/etc/my%20ca.pem&server_name=redis.internal"
        )
        #expect(configuration.tls?.certificateAuthorityFile == "/etc/my ca.pem")
        #expect(configuration.tls?.serverName == "redis.internal")
        #expect(try RedisConfiguration(url: "rediss://h").tls == RedisConfiguration.TLS())
    }

    @Test("a unix socket")
    func unix() throws {
        let configuration = try RedisConfiguration(url: "unix://u:p@/run/redis%20/s@ck")
        #expect(configuration.endpoint == .unixSocket(path: "/run/redis /s@ck"))
        #expect(configuration.username == "u" && configuration.password == "p")
        let longest = "/" + String(repeating: "a", count: 106)
        #expect(try RedisConfiguration(url: "unix://\(longest)").endpoint == .unixSocket(path: longest))
    }

    @Test(
        "what is wrong is refused, and no password is repeated",
        arguments: [
            "", "localhost:6379", "http://h", "redis://", "redis://:1", "redis://h:0", "redis://h:65536", "redis://h:x",
            "redis://h/1", "redis://secret@h", "redis://u:@h", "redis://[::1", "redis://[::1]x", "redis://h?ca=x",
            "rediss://h?what=x", "rediss://h?ca=", "unix://relative", "unix:///s?x=1", "redis://u:secret%4@h",
            "redis://u:secret%ff@h", "redis://a,b", "redis+sentinel://h", "redis+sentinel://h/",
            "redis+sentinel://h/a b",
            "redis+sentinel://h,h/m", "redis+sentinel://h/m?ca=x", "redis+sentinel://h/m?sentinel_user=u",
            "redis+sentinel:///m", "redis+sentinel://h/m/0", "redis://:secret/x@h", "rediss+sentinel://u:secret/x@h/m",
            "unix:///" + String(repeating: "a", count: 107),
        ],
    )
    func refused(url: String) {
        do {
            _ = try RedisConfiguration(url: url)
            Issue.record("taken")
        } catch {
            #expect(error.code == .configuration)
            #expect(!error.message.contains("secret"))
        }
    }

    @Test("a '/' in a password is encoded")
    func slash() throws {
        let error = #expect(throws: RedisError.self) { try RedisConfiguration(url: "redis://:ab/cd@h:6379") }
        #expect(error?.message == "not a Redis address: in a user or a password '/' is written as %2F")
        #expect(try RedisConfiguration(url: "redis://:ab%2Fcd@h:6379").password == "ab/cd")
    }

    @Test("Sentinels are named with the master, and their password is not shown")
    func sentinels() throws {
        let plain = try RedisConfiguration(url: "redis+sentinel://u:p@one,two:7000,[::1]/my.master")
        #expect(plain.deployment == .sentinel(.init(masterName: "my.master")))
        #expect(plain.endpoint == .host("one", port: 26_379))
        #expect(plain.otherEndpoints == [.host("two", port: 7_000), .host("::1", port: 26_379)])
        #expect(plain.username == "u" && plain.password == "p" && plain.tls == nil)
        #expect(plain.description == "redis+sentinel://u@one:26379,two:7000,[::1]:26379/my.master")
        let encrypted = try RedisConfiguration(
            url: "rediss+sentinel://one/m?ca=/ca.pem&sentinel_user=s&sentinel_password=se%26cret"
        )
        #expect(
            encrypted.deployment == .sentinel(.init(masterName: "m", username: "s", password: "se&cret"))
        )
        #expect(encrypted.tls == RedisConfiguration.TLS(certificateAuthorityFile: "/ca.pem"))
        #expect(encrypted.description == "rediss+sentinel://one:26379/m")
    }

    @Test("a command that hangs at one of several servers has as much time again for its successor")
    func requestTimeout() throws {
        for url in ["redis+cluster://a", "rediss+cluster://a,b", "redis+sentinel://a/m"] {
            let several = try RedisConfiguration(url: url)
            #expect(several.requestTimeout * 2 <= several.patience)
        }
        #expect(try RedisConfiguration(url: "redis://a").requestTimeout == .seconds(5))
    }

    @Test("a name has no spaces and an end")
    func clientName() throws {
        let longest = String(repeating: "a", count: RedisLimits.clientNameBytesMax)
        #expect(try RedisConfiguration(url: "redis://h", clientName: longest).clientName == longest)
        for name in ["", "a b", "a\n", longest + "a"] {
            #expect(throws: RedisError.self) { try RedisConfiguration(url: "redis://h", clientName: name) }
        }
    }
}
