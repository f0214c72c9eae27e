package apitest_test

import (
	"encoding/json"
	"strings"
)

// mark is replaced by a text that is found again, in hostile texts.
const mark = "MARK"

// hostileTexts are texts that try to leave the place in which they are: markup, headers, other formats, commands.
var hostileTexts = map[string]string{
	"script":       `MARK<script>alert(1)</script>`,
	"element":      `MARK"'><img src=x onerror=alert(1)><svg/onload=alert(1)></textarea></title>`,
	"style":        `MARK</style><style>*{background:url(https://evil.example/)}</style>{}`,
	"comment":      `MARK--><!--[if mso]><script>alert(1)</script><![endif]--><![CDATA[x]]>`,
	"entity":       `MARK&lt;script&gt;&#60;b&#62;&amp;`,
	"link":         `javascript:alert('MARK')//https://evil.example/`,
	"header":       "MARK\r\nBcc: evil@example.com\r\n\r\n<html>",
	"line feed":    "MARK\nX-Injected: yes",
	"encoded word": `MARK=?utf-8?q?=0D=0ABcc:_evil=40example.com?=`,
	"boundary": "MARK\r\n--=_\r\nContent-Type: text/html\r\n\r\n<script>alert(1)</script>\r\n.\r\n" +
		"MAIL FROM:<evil@example.com>\r\n",
	"address":     `MARK <evil@example.com>, other@example.com`,
	"json":        `MARK","admin":true,"x":"\u0022}`,
	"form":        "MARK&to=%2B1&x[]=1#?/../..",
	"path":        "../../MARK/..%2f..%00",
	"template":    `MARK{{.ClientID}}{{template "x" .}}{{range $i := .}}`,
	"placeholder": `MARK{{secret "key"}}{{text}}`,
	"chat":        "MARK<!channel> @everyone @here <https://evil.example|click> *b* _i_ `c` ~s~ :bomb:",
	"markdown":    "MARK[click](https://evil.example) **b** # h\n> q\n```\nx\n```",
	"calendar":    "MARK\r\nEND:VEVENT\r\nATTENDEE:mailto:evil@example.com\r\nX:;,\\n",
	"sql":         `MARK'; DROP TABLE notify_messages; --`,
	"shell":       "MARK$(id)`id`|id;id",
	"format":      "MARK%s%n%x%!(EXTRA)",
	"direction":   "MARK\u202efdp.exe\u2066\u200b\u200f",
	"separators":  "MARK\u2028\u2029\u0085\ufeff\u00a0",
	"control":     "MARK\x1b[31m\x07\x08\x7f",
	"nul":         "MARK\x00after",
	"emoji":       "MARK👩‍👩‍👧‍👦e\u0301\U000E0001",
	"zalgo":       "MARK" + strings.Repeat("\u0301\u0323", 200),
	"long word":   "MARK" + strings.Repeat("w", 5000),
	"empty":       "",
	"spaces":      " \t\u3000 ",
	"file":        "file:///etc/passwd",
	"metadata":    "http://169.254.169.254/latest/meta-data/",
	"mapped":      "http://[::ffff:169.254.169.254]/",
	"decimal":     "http://2130706434:TRAP/", // 127.0.0.2
	"hexadecimal": "http://0x7f000002:TRAP/",
	"internal":    "http://127.0.0.2:TRAP/",
	"credentials": "https://user:password@127.0.0.2:TRAP/",
	"any":         "http://0.0.0.0:TRAP/",
	"gopher":      "gopher://127.0.0.2:TRAP/_x",
	"locale":      "../de_DE.UTF-8@euro",
	"long locale": "de-" + strings.Repeat("x-", 300) + "a",
	"zone":        "../../etc/passwd",
	"time":        "9999-12-31T23:59:60+99:99",
	"past":        "0000-01-01T00:00:00Z",
	"duration":    "9223372036854775807h",
	"negative":    "-1h",
	"phone":       "+49 151\r\n12345678;ext=1",
	"pattern":     "^(a+)+$|(((((((((((((((((((.*)*)*)*)*)*)*)*",
	"sixth":       "1e309",
}

// hostileValues are JSON values that are no texts, or that no program would write.
var hostileValues = map[string]string{
	"null": "null", "true": "true", "number": "-1", "fraction": "0.0000001", "huge": "1e308", "beyond": "1e999",
	"integer": "99999999999999999999999999", "list": "[]", "object": "{}", "nested": `{"a":[{"b":[null,{"":""}]}]}`,
	"surrogate": `"MARK\ud800"`, "list of texts": `["MARK<b>",1,null]`, "keys": `{"MARK<script>alert(1)</script>":"x","a\r\nb":1,"":{}}`,
	"deep":      strings.Repeat(`{"a":[`, 200) + "1" + strings.Repeat("]}", 200),
	"wide":      "[" + strings.Repeat("0,", 20_000) + "0]",
	"prototype": `{"__proto__":{"admin":true},"constructor":{"prototype":{}}}`,
	"reference": `{"$ref":"#","$defs":{"a":{"$ref":"#/$defs/a"}},"properties":{"x":{"$ref":"http://127.0.0.2:TRAP/schema"}}}`,
	"local":     `{"$ref":"file:///etc/passwd"}`,
	"schema bomb": `{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/b"}]},"b":{"allOf":[{"$ref":"#/$defs/c"},{"$ref":"#/$defs/c"}]},` +
		`"c":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"string"}]}},"$ref":"#/$defs/a"}`,
	"pattern": `{"properties":{"x":{"type":"string","pattern":"^(([a-z])+.)+[A-Z]([a-z])+$"}},"patternProperties":{"(a|aa)+$":{}}}`,
}

// hostileBodies are whole bodies: none may be accepted.
var hostileBodies = map[string]func() string{
	"10 MB text":   func() string { return `{"` + strings.Repeat("MARK<b>", 10<<20/7) + `":1}` },
	"10 MB number": func() string { return `{"n":` + strings.Repeat("1", 10<<20) + `}` },
	"10 MB value": func() string {
		return `{"kind_id":"news","text":"` + strings.Repeat("x", 10<<20) + `"}`
	},
	"deep lists":   func() string { return strings.Repeat("[", 1_000_000) },
	"deep objects": func() string { return strings.Repeat(`{"data":`, 100_000) + "1" + strings.Repeat("}", 100_000) },
	"bytes":        func() string { return "\xff\xfe{\x00}\x00" },
	"cut":          func() string { return `{"kind_id":"news","text":"` },
	"two":          func() string { return `{}{}` },
	"a text":       func() string { return `"<script>"` },
}

// textValue returns a hostile text as a JSON value.
func textValue(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(raw)
}
