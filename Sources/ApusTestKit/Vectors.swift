/// Published test vectors that several targets use; the keys are in the RFCs, known to everybody.
package enum Vectors {
    /// The RSA key of RFC 7515 Appendix A.2, as PKCS#8.
    package static let rsaKeyPEM = """
        -----BEGIN PRIVATE KEY-----
        MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCh+BYK4uPJtGXO
        jS1lYmM2K5J9vinh8CR3/BYlzJChNuOL2TSXxbbqY913EeZ8dCn5VrD7io8ImtxL
        aYk8wTM/U+3QGbh3hCUv7JFP5IV3aVlL6kKA0ywPVb9ilE8TA5a8bpvfbr3SvaNn
        juygxmj3AbONv/s4yDQs4v5tJ/reSlpIdJed1LnPmt7Ex1sFhSwsD174pcF1A5L5
        ROjtZMEQxrZHYJqkeDrrnGya11UxMFBji4NmXG9veoKjlnAqH2QbgtPr8jkiGUkf
        toaHLFcW9Qr4NY2ai50Xw0Byj3+H2JoY2PyrZ62EWQwuz3WTOTY8BwNNb2BvniHg
        VFbK5emhAgMBAAECggEAEq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyW
        PEAeP88vLNO97IjlA7/GQ5sLKMgvfTeXZx9SE+7YwVol2NXOoAJe46sui395IW/G
        O+pWJ1O0BkTGoVEn2bKVRUCgu+GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzj
        kn439X0M/V51gfpRLI9JYanrC4D4qAdGcopV/0ZHHzQlBjudU2QvXt4ehNYTCBr6
        XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl/x/jTj3ccPDVZFD9pIuhLhBOneufuBiB
        4cS98l2SR/RQyGWSeWjnczT0QU91p1DhOVRuOopznQKBgQDgHMQQ60imZV1URk0K
        pLttoLhyt3SmqdEf/kgHePDdtzEafpAu+cS191R2JiuoF2yzWXnwFDcqGigp5BNr
        0AHQfD8/Lk8l1Mk09jxxCfui5nYooNyac8YFjm3vItzVCVDnEd3BbVWG8qf6deqE
        lMGAg+C2V0L4oNXnP7LZcPAZRwKBgQC5A8R+CZW2MvRTLLHzwZkUXV866cff7tx6
        kqa0finGG0KgeqlaZPxgCZnFp7AeAcCMtiynVlJ7vMVgePsLq6XtON4tB5kP9jAP
        rq3rbAOal78eUH5OcED6eNuCV8ixEu1eWcPNCS/l1OW1EnXUEoEHKl54Xrrz2uNw
        kgMTP1FZ1wKBgAcCn1dwJKufzBWQxWQp1vsM5fggqPN1qGb5y0MAk3g7/Ls5bkUp
        5u9SN0Ai3Ya6hNnvWJMb7sXQX6U/zyO2M/hTip7tUeh7CXgwo59dkpN75gJLVds2
        9+DAncu3KXU4f2Fa+7bLNrur53k8KwPOq2bbuTG69QtV7Jr5MR0AHWKNAoGBAIf/
        evpitUf+4JYbLpvNXWcY052Mpz22aR84mY3nh3F2LF2mjMJDpTg7FmuyPcVw6EcG
        yoAe9fa65iNqCq+jdw6PVNGo2hxfjSiZ8IIzHdsPXI89//pMjZcQK9r+CCoRjaZj
        OYiIDktVWZzmevJuv6WywUqd57LE3Zar3dLSIkx1AoGAIYd7DHOhrWvxkwPQsRM2
        tOgrjbcrfvtQJipd+DlcxyVuuM9sQLdgjVk2oy26F0EmpScGLq2MowX7fhd/QJQ3
        ydy5cY7YIBi87w93IKLEdfnbJtoOPLUW0ITrJReOgo1cq9SbsxYawBgfp/gh6A56
        03k2+ZQwVK0JKSHuLFkuQ3U=
        -----END PRIVATE KEY-----
        """

    /// The certificate of an authority whose key nobody has, so nothing can be issued by it.
    package static let authorityPEM = """
        -----BEGIN CERTIFICATE-----
        MIIBkzCCATmgAwIBAgIUezM8S+ovFGf9yYoOzRetNSPkHpgwCgYIKoZIzj0EAwIw
        HjEcMBoGA1UEAwwTQXB1cyBUZXN0IEF1dGhvcml0eTAgFw0yNjExMjgxNTIwMDda
        GA8yMTI2MTEwNDE1MjAwN1owHjEcMBoGA1UEAwwTQXB1cyBUZXN0IEF1dGhvcml0
        eTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABAafM4C6nfAPo+lNk7vriX56J3Q0
        3kus7Y78akHNJZvq2unLY0v6clQKexyMT21ufJvUBTx4kJGwcxgcsM0SsESjUzBR
        MB0GA1UdDgQWBBTs0GLpoJN76gaV6/TNZHVjfgf+CzAfBgNVHSMEGDAWgBTs0GLp
        oJN76gaV6/TNZHVjfgf+CzAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gA
        MEUCIDkDOVv7yt9f8qayvStVvvI76AiRwG4TK7w4pmFhz/olAiEApw+RSYoVxTDl
        qUSpJh06iIgrbqjUDlN1tEhTIziRhx0=
        -----END CERTIFICATE-----
        """

    /// The secret number of a P-256 key, base64url (RFC 7515 Appendix A.3).
    package static let p256Scalar = "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"

    /// The assertion of a service account with the RSA key: RS256 has exactly one valid signature.
    package static let assertion = [
        "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InRlc3Qta2V5LTEifQ.eyJpc3MiOiJwdXNoQGV4YW1wbGUtcHJvamVjd",
        "C5pYW0uZ3NlcnZpY2VhY2NvdW50LmNvbSIsInNjb3BlIjoiaHR0cHM6Ly93d3cuZ29vZ2xlYXBpcy5jb20vYXV0aC9maXJlYmFzZ",
        "S5tZXNzYWdpbmciLCJhdWQiOiJodHRwczovL29hdXRoMi5nb29nbGVhcGlzLmNvbS90b2tlbiIsImlhdCI6MTcwMDAwMDAwMCwiZ",
        "XhwIjoxNzAwMDAzNjAwfQ.G4Oqlno4eskdv7raSn3ZWQeG14I2TarCQKgBKelDTYPvRnh0_XQvCCFfiULYhOYDhSYUouHjh4OVqW",
        "xBLe5GgHflmDfQUnUY4smMFyFXb5X-9uEbPzHo2B0-YgMO_bSqQhUT1oHg9JZCWJFzTxz0q0MhT1BZtXsTy3rYJ9Vyc6T-_SYeNu",
        "cAPIE6emmM1bkUO7-mNeff_EcoN9BqCWElTBx1lvaNm-P0lgccIBZ712FlyAtqbHEKntafF21RiBtxhBlJqKncXo1xzlfZ1lRG-c",
        "LpgEqO5IG5vLkuOHCR300D1tONc3Aji8lt8_eBQOo1IxF17pVxd-Wrzv6LMWRPfA",
    ].joined()
}
