/// The bytes of the samples as Google's own protobuf writes them, in Base64url.
///
/// They pin the wire format: whoever changes a field's number or type breaks what lies in streams and stores, and this.
enum Golden {
    static let sendCommand = """
        CgZzZW5kLTESBHNob3AakQEKjgEKfggDEhpodHRwczovL3B1c2guZXhhbXBsZS5vcmcvMRgCIAMqQQABAgMEBQYHCAkKCwwNDg8Q\
        ERITFBUWFxgZGhscHR4fICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj9AMhBkZWZnaGlqa2xtbm9wcXJzOgVkZS1BVAoM\
        CAESBDAwZmYYASABIqcECAgSCVRpdGxlIOKYgxoIU3VidGl0bGUiCUJvZHkg8J-mhSoFVElUTEUyA29uZTIAOghTVUJUSVRMRUID\
        dHdvSgRCT0RZUgV0aHJlZVIEZm91cloGbGF1bmNoYhlodHRwczovL2V4YW1wbGUub3JnL2kucG5nahUKCHBpbmcuY2FmEAEZAAAA\
        AAAA0D94AoIBCGNhdGVnb3J5igEGdGhyZWFkkgEHY2hhbm5lbJoBA3RhZ6IBFGh0dHBzOi8vZXhhbXBsZS5vcmcvqgEHI2FhYmJj\
        Y7IBCwoFb3JkZXISAjE3sgEMCgLDqRIGYWNjZW50uAEDyAHg1APSAQhjb2xsYXBzZdgBAeABAegBBPEBAAAAAAAA4D_6AQZ3aW5k\
        b3eCAgVmb2N1c4oCXggDEgt7InNjb3JlIjozfRoPTWF0Y2hBdHRyaWJ1dGVzIgt7Im1hdGNoIjo3fSiB0JX_vDEwgtCV_7wxOABA\
        AUoUZEhOMExYTnlZMmd0WTJodWJBPT1SB21hdGNoLTiSAk0KBXB0LUJSEgRPbMOhGgNzdWIiBWNvcnBvKhpodHRwczovL2V4YW1w\
        bGUub3JnL3B0LnBuZzIWaHR0cHM6Ly9leGFtcGxlLm9yZy9wdJICBAoCZnKaAgp7ImFwcyI6e319ogIMeyJ0dGwiOiIxcyJ9qgIH\
        eyJhIjoxfbACArgCAsACAsoCBWxhYmVs0gIOeyJoZWFkZXJzIjp7fX0qBWtleS0xMJWal-zjn-fLFzig3Zv_vDFCEmFwdXM6cmVj\
        ZWlwdHM6c2hvcEgDUPQDWAJgAWo3MDAtMGFmNzY1MTkxNmNkNDNkZDg0NDhlYjIxMWM4MDMxOWMtYjdhZDZiNzE2OTIwMzMzMS0w\
        MXIVcm9qbz0wMGYwNjdhYTBiYTkwMmI3
        """

    static let outcomeBatch = """
        CgZzZW5kLTESBHNob3AYAyABKAIyDzE3MDAwMDAwMDAwMDAtMDgJQgkIARACGAEg6gNCEQgCEAUYDiD___________8BSigKBggF\
        EAYYBxEQMlR2mLrc_hi81ZX_vDEgAioMVW5yZWdpc3RlcmVkUiUKAyDoBxEQMlR2mLrc_hi81ZX_vDEgAyoMVW5yZWdpc3RlcmVk\
        UigKBggFEAYYBxEQMlR2mLrc_hi81ZX_vDEgAioMVW5yZWdpc3RlcmVkWkoKAiABEAQYBiIPUGF5bG9hZFRvb0xhcmdlKiQwZjBl\
        MGQwYy0wMDAwLTgwMDAtODAwMC0wMDAwMDAwMDAwMDEwoNaV_7wxQAJIAmDY1JX_vDFohNeV_7wxcAF6EmFwdXM6cmVjZWlwdHM6\
        c2hvcIABA4oBNzAwLTBhZjc2NTE5MTZjZDQzZGQ4NDQ4ZWIyMTFjODAzMTljLWI3YWQ2YjcxNjkyMDMzMzEtMDGQAfQDmAGVmpfs\
        45_nyxeiARVyb2pvPTAwZjA2N2FhMGJhOTAyYje6ASgKBggFEAYYBxEQMlR2mLrc_hi81ZX_vDEgBioMVW5yZWdpc3RlcmVkugEo\
        CgYIBRAGGAcREDJUdpi63P4YvNWV_7wxIAIqDFVucmVnaXN0ZXJlZMUBeFY0Eg
        """

    static let deviceRecord = """
        CiAAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHxACGAIiBnVzZXItMSoMAX-AAfCiBP____8PMiwKBWVuLUdCEg1FdXJv\
        cGUvTG9uZG9uGgUzLjIuMSICR0IqBGJldGEqA3ZpcDie6RxKQQABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fICEiIyQl\
        JicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj9AUhBkZWZnaGlqa2xtbm9wcXJzWgkIgNCV_7wxEANiDQgDEgMAAQIggOLPqgZiGQgF\
        EgH_GgdtYXRjaC03KAEwgdCV_7wxOAFyEG8PK0R6CktTmlELfBx8LxCKAUEAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0e\
        HyAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs8PT4_QJABgKSn2gY
        """

    static let deviceRegistration = """
        CghkZXZpY2UtMRADGhpodHRwczovL3B1c2guZXhhbXBsZS5vcmcvMSACKAcyBnVzZXItMTosCgVlbi1HQhINRXVyb3BlL0xvbmRv\
        bhoFMy4yLjEiAkdCKgRiZXRhKgN2aXBCBG5ld3NCDS90b3BpY3Mvc3BvcnRIAVJBAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBka\
        GxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0-P0BaEGRlZmdoaWprbG1ub3BxcnNgrAJoAXJBAAECAwQFBgcICQoL\
        DA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0-P0B4gKDxwrE0
        """

    static let sendReceipt = """
        CglyZWNlaXB0LTESBnNlbmQtMRoEc2hvcCADKjYKCW1hbGZvcm1lZBIabm90aWZpY2F0aW9uLmRhdGFbM10udmFsdWUaDW11c3Qg\
        YmUgVVRGLTgw9AM6CQgBEAIYASDqAzoRCAIQBRgOIP___________wFCSgoCIAEQBBgGIg9QYXlsb2FkVG9vTGFyZ2UqJDBmMGUw\
        ZDBjLTAwMDAtODAwMC04MDAwLTAwMDAwMDAwMDAwMTCg1pX_vDFAAkgCSJWal-zjn-fLF1DY1JX_vDFYhNeV_7wxYjcwMC0wYWY3\
        NjUxOTE2Y2Q0M2RkODQ0OGViMjExYzgwMzE5Yy1iN2FkNmI3MTY5MjAzMzMxLTAxagVrZXktMXIGc2VuZC0wigEVcm9qbz0wMGYw\
        NjdhYTBiYTkwMmI3
        """

    static let clientEvent = "CgdldmVudC0xEgRzaG9wGghkZXZpY2UtMSIGc2VuZC0xKAQyBXJlcGx5OOjXlf-8MUAC"

    static let deadLetter = """
        Cgt7cTN9aW46YnVsaxIPMTcwMDAwMDAwMDAwMC0wGAMiCW1hbGZvcm1lZCoNbXVzdCBiZSBVVEYtODIEAAH_ADgFQNDflf-8MUoP\
        YXB1cy1kaXNwYXRjaGVyUgRzaG9wWgZzZW5kLTFiGm5vdGlmaWNhdGlvbi5kYXRhWzNdLnZhbHVl
        """

    /// The sample with each kind of recipients.
    static let workUnits = [
        "CgtzaG9wL3NlbmQtMRADGAEgBigCMMDqof-8MTiVmpfs45_nyxdCGgoQCAcQAxoKAAAAAQD_AQAP_woGCAgaAgARWPTTlf-8MWAE",
        "CgtzaG9wL3NlbmQtMRADGAEgAigCMMDqof-8MTiVmpfs45_nyxdKDgoCAQASBPCiBAAaAgMAWPTTlf-8MWAE",
        "CgtzaG9wL3NlbmQtMRADGAEgAygCMMDqof-8MTiVmpfs45_nyxdSBgoEAAXnB1j005X_vDFgBA",
    ]

    /// The sample with each action.
    static let actions = [
        """
        Cg5yZWdpc3RyYXRpb24tMRIEc2hvcBiA0JX_vDEinQIKCGRldmljZS0xEAMaGmh0dHBzOi8vcHVzaC5leGFtcGxlLm9yZy8xIAIo\
        BzIGdXNlci0xOiwKBWVuLUdCEg1FdXJvcGUvTG9uZG9uGgUzLjIuMSICR0IqBGJldGEqA3ZpcEIEbmV3c0INL3RvcGljcy9zcG9y\
        dEgBUkEAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs8PT4_QFoQZGVm\
        Z2hpamtsbW5vcHFyc2CsAmgBckEAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8wMTIzNDU2\
        Nzg5Ojs8PT4_QHiAoPHCsTRiEmFwdXM6cmVjZWlwdHM6c2hvcGo3MDAtMGFmNzY1MTkxNmNkNDNkZDg0NDhlYjIxMWM4MDMxOWMt\
        YjdhZDZiNzE2OTIwMzMzMS0wMQ
        """,
        """
        Cg5yZWdpc3RyYXRpb24tMRIEc2hvcBiA0JX_vDEqCgoIZGV2aWNlLTFiEmFwdXM6cmVjZWlwdHM6c2hvcGo3MDAtMGFmNzY1MTkx\
        NmNkNDNkZDg0NDhlYjIxMWM4MDMxOWMtYjdhZDZiNzE2OTIwMzMzMS0wMQ
        """,
        """
        Cg5yZWdpc3RyYXRpb24tMRIEc2hvcBiA0JX_vDEyEAoIZGV2aWNlLTESBG5ld3NiEmFwdXM6cmVjZWlwdHM6c2hvcGo3MDAtMGFm\
        NzY1MTkxNmNkNDNkZDg0NDhlYjIxMWM4MDMxOWMtYjdhZDZiNzE2OTIwMzMzMS0wMQ
        """,
        """
        Cg5yZWdpc3RyYXRpb24tMRIEc2hvcBiA0JX_vDE6FwoIZGV2aWNlLTESBG5ld3MSBXNwb3J0YhJhcHVzOnJlY2VpcHRzOnNob3Bq\
        NzAwLTBhZjc2NTE5MTZjZDQzZGQ4NDQ4ZWIyMTFjODAzMTljLWI3YWQ2YjcxNjkyMDMzMzEtMDE
        """,
        """
        Cg5yZWdpc3RyYXRpb24tMRIEc2hvcBiA0JX_vDFCEgoIZGV2aWNlLTESBnVzZXItMWISYXB1czpyZWNlaXB0czpzaG9wajcwMC0w\
        YWY3NjUxOTE2Y2Q0M2RkODQ0OGViMjExYzgwMzE5Yy1iN2FkNmI3MTY5MjAzMzMxLTAx
        """,
        """
        Cg5yZWdpc3RyYXRpb24tMRIEc2hvcBiA0JX_vDFKCgoIZGV2aWNlLTFiEmFwdXM6cmVjZWlwdHM6c2hvcGo3MDAtMGFmNzY1MTkx\
        NmNkNDNkZDg0NDhlYjIxMWM4MDMxOWMtYjdhZDZiNzE2OTIwMzMzMS0wMQ
        """,
        """
        Cg5yZWdpc3RyYXRpb24tMRIEc2hvcBiA0JX_vDFSOAoIZGV2aWNlLTESLAoFZW4tR0ISDUV1cm9wZS9Mb25kb24aBTMuMi4xIgJH\
        QioEYmV0YSoDdmlwYhJhcHVzOnJlY2VpcHRzOnNob3BqNzAwLTBhZjc2NTE5MTZjZDQzZGQ4NDQ4ZWIyMTFjODAzMTljLWI3YWQ2\
        YjcxNjkyMDMzMzEtMDE
        """,
        """
        Cg5yZWdpc3RyYXRpb24tMRIEc2hvcBiA0JX_vDFSCgoIZGV2aWNlLTFiEmFwdXM6cmVjZWlwdHM6c2hvcGo3MDAtMGFmNzY1MTkx\
        NmNkNDNkZDg0NDhlYjIxMWM4MDMxOWMtYjdhZDZiNzE2OTIwMzMzMS0wMQ
        """,
        """
        Cg5yZWdpc3RyYXRpb24tMRIEc2hvcBiA0JX_vDFiEmFwdXM6cmVjZWlwdHM6c2hvcGo3MDAtMGFmNzY1MTkxNmNkNDNkZDg0NDhl\
        YjIxMWM4MDMxOWMtYjdhZDZiNzE2OTIwMzMzMS0wMXIMCghkZXZpY2UtMRAD
        """,
        """
        Cg5yZWdpc3RyYXRpb24tMRIEc2hvcBiA0JX_vDFaCAoGdXNlci0xYhJhcHVzOnJlY2VpcHRzOnNob3BqNzAwLTBhZjc2NTE5MTZj\
        ZDQzZGQ4NDQ4ZWIyMTFjODAzMTljLWI3YWQ2YjcxNjkyMDMzMzEtMDE
        """,
    ]

    /// A send with an empty notification to each audience but the first.
    static let targets = [
        "EgRzaG9wGhYSFAoIZGV2aWNlLTEKCGRldmljZS0yIgsIAbACAbgCAcACAUgCWAE",
        "EgRzaG9wGgoaCAoGdXNlci0xIgsIAbACAbgCAcACAUgCWAE",
        "EgRzaG9wGgYiBG5ld3MiCwgBsAIBuAIBwAIBSAJYAQ",
        "EgRzaG9wGiMqISdhJyBpbiB0b3BpY3MgJiYgISgnYicgaW4gdG9waWNzKSILCAGwAgG4AgHAAgFIAlgB",
        "EgRzaG9wGi0yK3BsYXRmb3JtID09ICdpb3MnICYmIGxvY2FsZSBpbiBbJ2VuJywgJ2ZyJ10iCwgBsAIBuAIBwAIBSAJYAQ",
        "EgRzaG9wGgI6ACILCAGwAgG4AgHAAgFIAlgB",
        "EgRzaG9wGgY6BAoCAQMiCwgBsAIBuAIBwAIBSAJYAQ",
        "EgRzaG9wGgZCBG5ld3MiCwgBsAIBuAIBwAIBSAJYAQ",
        "EgRzaG9wGg9KDSdhJyBpbiB0b3BpY3MiCwgBsAIBuAIBwAIBSAJYAQ",
        "EgRzaG9wGgtaCUFQQTkxYmtleSILCAGwAgG4AgHAAgFIAlgB",
        "EgRzaG9wGhxSGgoUZEhOMExYTnlZMmd0WTJodWJBPT0QAhgBIgsIAbACAbgCAcACAUgCWAE",
    ]
}
