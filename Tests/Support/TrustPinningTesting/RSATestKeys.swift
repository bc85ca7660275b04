// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// RSA keys for tests, as PKCS #8 in base64. They were created once, because creating one takes long. They protect
/// nothing.
enum RSATestKeys {
    static let bits2048 = """
        MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQCtQ9Am6vYZSPNc
        3oJbborQ9sQ1TZWFQbZ9CMTNP28/0vKQn+foCAUUALjJYfBEE9KPOQZoVF2hU/+I
        JiKiSuZbeFYA4rM0zNEAi2G8ORkZFkhMrEAYX3l3Alw5O0kG1A35w67gIgd74cgG
        UkhdC0n5nyLfxdFuBzhSOCRTL/6Q5h+HLNMGGuA9/b5sIJWO4yxb6PdAoPld6kzJ
        F1PwAZq4yZu8q/xNzPId0cuCchoOHOlKEbU9xFkIqelmg+1F3U19cl6YM8uS48Vq
        SkGS5ZdpDHatbH2ssoOV64LQQDCCkaxcKh7lSUvv9DEZY83zk0WawKJ8HKASKVZW
        KeXD7Uf9AgMBAAECggEAIEWY++K4L2n30DSunZaXmwfXcGEwyBb/BUdwlpUp5L6n
        CPqLwJtbzMe8o1/PV3LEvYH+2EhcfyvM1OBbg5SFVwSxKi2PePZsOFh9vgf5jYNp
        uIQ91PxVfK3vHQbWmYO+Tabdx+f2smORtOG3EkODxg+WuIzZLw//tMq5s1flZ7ny
        Wr7H1EgXXm9VWd42aMGDzQ48AYXtgQRk5RIMjTv7GVwp/8svRUBLAN7qF0GcgXUW
        4AtBEsIKysRIvzANlbXzvOpi/f+DeB4sSI3ufdgEDoIH4Ja6oSbI9rsZGlgsqM+V
        hfk3NF91kP7b5i5BLOB/rLsSq+LpT4hyKwxVnLt74QKBgQDnE3aOwZaL4SPHRocs
        qVH1dSh7CAhjTmAqF6EvI5CkXxpq1rJvzL6kAXvvrzKqssR4r4DKGj3NiEr9Ozyr
        UpPkCsxVFD1a+bzUGmshJ2qb8pLtO7qXgVzJxucbdjbz4grwvrCGTPP0FjIse8kZ
        thTp8in+PfD8WMQiY2NTOQhlYQKBgQC/9A10ylHo4XFTKZ0zKsl0dpUXxofcRVhs
        WP4GJw4sBAomSDriwhFYkSliFEG7Lf3UHk3juDxRl11wQFaj3ksDGMU8Jkks0bib
        EgKZjbjnedlzEzFeGv0t+j08cF7lmqIgM24m8M+Ru/qtFTmzeirMm+PTajx0eF8Z
        4VkO+oFMHQKBgQDNZoiZRs1aU2spRLD9axjWVikAi9hg5Zcnc0+shjGZWowx8dw0
        8st3H3aaTKJ+B2ALYv3ZKFBNdVwrEs/P/hxFta+B5PbQ+nL2GvGlS9NBAfPGerRW
        3f+rwGlICOG6EfDlpKtnBdpH2r8IuZO9jhOzDLZ1L3wZ45Gce7objPPAoQKBgQCx
        zzz3xsKBWvRC+PVphGUAwSfy0jDf1kzGcNk+kccK9uL/+0Cw9NxkknMnK2SII15R
        s5CrNOqLGg+v/6lCOpR51eQ+h6iZH9xFqTVHUITLx4+qjUjZx15nzLoU1nLRdaBg
        +8M5xzA/60WWN2cv3ibvSiiMmohNy4Ms0hZRTbOf8QKBgAQ6cAO8l0YWao30Juwp
        4ca6w7cpbUfPTTCMbTr6R8m2jHZgz9Q1PwZQXiVy06QNkaRhWF/gamwFBXOYOBIE
        gk4b2LdodwcgCXLkIXO8uKQkL8amEThw42BzN+0ie86bJhYHB8+Y7Xl8zICsJ/jW
        5ljc3Kpi/x65qUPOvfw+Pxki
        """

    static let otherBits2048 = """
        MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDOrjKpVnXrf/UV
        nos1AbaUBqUGukgQZQQBKQpg7d83DBUY0aMqNeptMK6P74Yyz2II9nCKJqbKdSJg
        f6V1BTWngxdhvbxJaCSqB4zlzapQIeLx4yuxwzZ0CEiIiO67++m2ER0hUzO7F97J
        gkR9o2rZfE4hyL37Cp8XUuF1WNP0wmY14+ZJGh01v17+Piny28DVe5k1afxD+8NP
        2lPUPADcp/W6XbQWyXDtCWk4QkoAXSlorGGVLnmSaRsXcXdN+puddvZDm3maO5yt
        Pr6/bTdOr0Hr7LT6dQ+bTAoUtS6EQdJ9kRa3FukhYRCCMWEhogzvK+ib5SzxFoyS
        7+ZuAMF1AgMBAAECggEABSG7pcs9CdAnSnZhj/sfKK1Cjzh0Xh3X+9xkQtRdML12
        z6My6TMmAziMeQvyOdQ+46iU0kVT6l5+sEUzG0T6GFLvs3BV2r/Ae01NMQ6Kfktd
        GnLwzIzjjv1+qY822EmQu8HQhpmNhQV6dWfr4e+7ETPeL8YPe4p/uUFIUlTWjHL0
        w3d0ixTDPDiWfkvzjeS9Wp5AVDSkHTLxlNpvz9oFgiuXkPNc7x6KdpqboUvf7F6D
        HuNN7mz/EYRliuI0DfkyzFFy16pmxNdim1rxEAMQwzz5v/YV6YpqNexaaZTHg5Zs
        0MLZXLfHOpmAFGXHvY84hQJH2KWBtYV76psaWxJBoQKBgQD9PFkBss18S6RJh03Q
        dwgwbrHe85aO9ibbSkI6ena0ySoiA4aqcYXYr5+54B86PZR4FxgchSXkyE4rrQq8
        kEeRDbc4miMiHRpiMzHpnpP6hjTIkjWM71iFS3k+eVho9OYSbbbMjT7fCSqKx7s/
        9u579K4Ey/IgAHtLOFGt12AToQKBgQDQ78EWm/5P0Xk+788jliGihAh3rY5QG1yr
        U/ntLUZwqY9AnNqYdMYeVTxW/AZlB5Uh5bVV5iiEqXd4PZDIeo/0kscmJO2shY/B
        GvtDz4hzDOAa46wV0Ez+rQaed1haDWG+YXnpUnMqe4ZfrD73ipguGwyaPK5dDQ0W
        J8LX7UEdVQKBgAkCyLgCwMUXe/UR13b/hU8T4UhpqoXTxHYxIkIqcWblcZZcQcJ2
        36hiN3DJxNKxtkK/r5/0LPEDH6T2N1eWWrWSo15kPbPNDU9JOxFxDxrvA5nPehBV
        w/SaRuouLzMs47LsLIEC1aXiEZ12lfcktj+66SZKi4cP/VMj4eQpscWBAoGAD1dL
        SimyBpJO4Lwi7W38kj43kPIBXQhlSX8k/rEwVt1cU1YxBrisQ1Xm1Ew0+/4OiSqg
        oeoAV51J1F5Q3yeAomiUjsxvVxeHcppUkKoQTsJHQjItVHyy6pAxyDjjF9mbr6rg
        lK0lH51qRGQVS3+1pMz/o+OIufRXXaUVvV0CRvECgYEA5jGrB2tv1OWTSLsdbL7j
        g/O4NvR5W3qExxQXl86wHKo1YeigoQ3I0VqFeNQJ1Qx9g1op57KyPQpMH8xIExzH
        fcX8nrO4Gnu3dGTSEBMghpb2CxcFbrmPIV1xJBjWbQAsjFNelHwcUScI/v2X+JY6
        ZBS1kNqRYQdR2kdcyaRTo2E=
        """

    static let bits3072 = """
        MIIG/gIBADANBgkqhkiG9w0BAQEFAASCBugwggbkAgEAAoIBgQDu60Lnj03Yn+dT
        NWpe1EZ12e2hD+SwP6T60Mifd3MOErCH2f3/1hbfhw/H5L+mksKuGayWoCY86v0q
        cEOuDhTBTpbOrbjnMSNNwZiz7XLb36/jA1McckDTC/BIXHfT8kIdo0+aAjZhOjZN
        G543XL0Lqi8LR3Dkx18p/DfnJbmK0L+EmRY+OUVT0+46/JVuBPu7yQEOXKHX/Q43
        6QIzqfgpT6dgicyhoZ/fvUTAGEeF/Ru6B+uYfQaP+zb1ZFoAfX6AyWRBxz6Cn3C9
        fjP2No/d55IPsG9+3I4b8CsFBKDw/halbjvJRAmjZY1OU+o08aU3mQ2oMQBf+fsP
        SMWPBvzyeipbURZb2tkVnwtUuITMF8DsI64c98CcJqMhJRjGrxcIV5xO0WQr8PeH
        ACiHGXBDqvCuqto8kaiLjOhmbevxmTUpHcwdQOAAMNnyHNbTHu9bxj0AHvtYni0j
        hc4U3iJb30mxEC+bzD/qShG3/+BsgNXu2u1X8bUTi6InI7YDZ+cCAwEAAQKCAYAh
        G+UnpcpJ7M7nzw0wmwYwqsStf0BX1FoOkARdZPZCywA/s0vpukdtLpBXSTHt6YSl
        D9XFAeiKpJ301Z3rbvQdXcC0X4qyLzMPQXbh6FP0eGktcnaACK1HEe54eKf6bSYQ
        aWNMmmXiz2hbAyrHzUg9Z5YhYAMbES306YjttWKjBA6mV3inotQiq8nlzr7+gh5I
        hbBpxxh+kAj6YoX1luZXAzzUugPrmjRHkzkFzdeLj+nZu+NAPIM+TLfvBbsbOkib
        CPpf3iUmQqShgQIyUO7Px3wcjzfLb6pW/oqmeA25ezpLcMOp2mFMY2MaZvCt1j/E
        xmVMgsioZHVES1dOS/yKZItjPWjRyVlyqgNCR1LK0qBDR/1VFrwqPP+cmruq1A7n
        OTv3iQY9YTn43mHqIpVh3e9ozr3duCKim7w/Yfgzi9uyY43noPo0T5hPskvkOzeS
        UGCcZ7hMvuysxXPqr3RtN/ZMtdc88vlz+3wj8oCFCm384B2F4fwtnXdaUUHgQsEC
        gcEA/scWEYJW4Aq3YnHrycE1JWnCH74j+Exp2xbejOBlR1MKPCe3NdIxSitRHGW7
        MiC9bURKc0Dwrv7nzLl/7WwNLnP+EudYzLDrDuO68JQFrCD4luZrjckjxxjFwZ4F
        m6/3q19g3y+1PuR3+dhmlCPSyVNO7KmZ5RIa5OqncSqm9jgk1+TR/3uRTyJiXv1t
        nO71EPrC3cqzZXi2cBRMIAU5YGZ9dYKIMV95I04Sq6cfuh1dH1sLtvWcVUjiX6Ef
        855RAoHBAPAQsqAaXoTghgzPLfpr9twrK1IAfdms5jjRlddlV0y8IvFHcfRorgui
        xOk0gmypn30JN7V4kbdDag6CF2ntKhp5INhCnUdkscLCIzn1HHbMW5Z1Vgjk84KL
        XDqJJzGLOPpPIRZOJDtBnztJ17IASJ7WGhkZsv79NCmVQ2g0rhQ9LI3nR+/prJOT
        8jX5Qa2Ap/9dvqoSTVlDhyvNCqmao/XEWqyGfuqA5B8vaDQ+BId10j3EQNjA9RGm
        VkA/qc58twKBwQDG5+0dvFFQ1mz3aZM4zyNL0zZgC9UPO7EE/+S9vU60kWsTLbqG
        RVR/4DOR5QZxi0f4L3Gka1W8eXvExCnQ1SOxWZNJdN5J5/GLjVVcD2QiTxdkz/22
        Ewtgm8GAeHtOYeINJAiAFkH9GOdl4oGrNBCTZvveHkbspObkQyJ4YmE5Jvn0p0sf
        l3wJeQGtwVM7Sv9+wxcxitfl54kfFWmdMhbqYPmfrUngqfXsDz7aTj6h0dzq5uzN
        aRElMCKzoBpO2xECgcBz01qbrJ1V9w42N++zF0wvxhRMqDgQQj+Bwn1NQ3PvbgZd
        616r0aXHr2zaJ5+V1fFBXqUmRVno1fnhrhql3OungjG6pclEnOy3Tvu4Bu8I0miO
        G2a7O9vRbHO/OlVSrh17h5orLOCGRo8RB/utwj1HhX1qBuA57uiv93hiWqhy02Ef
        xisLMe819Pez2uM5Vw23Q/+uBs6S9uXM2E0Ar7/T4DzvaKTrd+yYr0LTkeiVgt9B
        NeMjsVWMgniy3wSKv9kCgcEAnqYdGnpfBfjrgC+3cIpLDhtwVvh5TmXosLKeOW+y
        /f5fkkhw/VYmePTye7F75R/v5N7fbJRQ71o//2yvjX9p9BcW0GrK5EfRbXfus2gH
        QJfzRMxXlAaFjTdgHbzeTbaikOHJtg8RYmIuPCNFmdQJ6NmfxpB0ikaA/ojpBT7b
        fB+zTBz0bF7D5VQovYSJW4W+FTO7dwNIy2RCG1LnOyv/s/cQDEcDKBAKOV2HvwGt
        BHkk9Qa5BP+isMlgvqpYhQAa
        """
}
