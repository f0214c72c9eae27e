package address

import (
	"net/mail"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a@b.example":                         "a@b.example",
		"  a@b.example ":                      "a@b.example",
		"Ann <a@b.example>":                   "a@b.example",
		`"Ann, B." <a@b.example>`:             "a@b.example",
		"<a@b.example>":                       "a@b.example",
		"a+tag@b.example":                     "a+tag@b.example",
		"o'neill@b.example":                   "o'neill@b.example",
		"a@localhost":                         "a@localhost",
		"jörg@exämple.org":                    "jörg@exämple.org",
		"a@xn--exmple-cua.org":                "a@xn--exmple-cua.org",
		"用户@例え.jp":                            "用户@例え.jp",
		strings.Repeat("a", 64) + "@b.org":    strings.Repeat("a", 64) + "@b.org",
		"=?utf-8?q?J=C3=B6rg?= <j@b.example>": "j@b.example",
	} {
		if got, err := Parse(in); err != nil || got != want {
			t.Errorf("%q is %q, %v, want %q", in, got, err, want)
		}
	}
	for _, bad := range []string{
		"", " ", "a", "@b.org", "a@", "a@b@c.org", "a@b.org, c@d.org", "a@b.org;c@d.org", "group: a@b.org;",
		"a b@c.org", `"a b"@c.org`, `"a\r\nb"@c.org`, "a@[127.0.0.1]", "a@b..org", "a@-b.org", "a@b.org.", ".a@b.org",
		"a.@b.org", "a..b@c.org",
		"a@b.org\r\nBcc: c@d.org", "a\n@b.org", "a@b.org\x00", "a\x00@b.org", "A\r\n <a@b.org>", "a@b_c.org",
		"a@b.org> RCPT TO:<c@d.org", "<a@b.org", "a@b.org>", "a<script>@b.org", "a@b.org (x", "a@\u2028b.org", "\xff@b.org",
		strings.Repeat("a", 65) + "@b.org", "a@" + strings.Repeat("b.", 130) + "org", "a@" + strings.Repeat("b", 64) + ".org",
		strings.Repeat("a", 2000) + "@b.org",
	} {
		if got, err := Parse(bad); err == nil {
			t.Errorf("%q is taken for %q", bad, got)
		} else if strings.ContainsAny(err.Error(), "\r\n\x00") {
			t.Errorf("the error for %q holds its control characters: %q", bad, err)
		}
	}
}

func TestWire(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in, want string
		utf8     bool
	}{
		{"a@b.example", "a@b.example", false},
		{"a@exämple.org", "a@xn--exmple-cua.org", false},
		{"jörg@exämple.org", "jörg@xn--exmple-cua.org", true},
	} {
		got, utf8, err := Wire(test.in)
		if err != nil || got != test.want || utf8 != test.utf8 {
			t.Errorf("%q is %q, %t, %v", test.in, got, utf8, err)
		}
	}
	if _, _, err := Wire("nothing"); err == nil {
		t.Error("an address without @ is taken")
	}
	if got := Domain("a@EXÄMPLE.org"); got != "xn--exmple-cua.org" {
		t.Errorf("domain %q", got)
	}
	if got := Domain("a@Example.ORG"); got != "example.org" {
		t.Errorf("domain %q", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a@b.org", "Ann <a@b.org>", "a@b.org\r\nx", `"q"@b.org`, "jörg@exämple.org"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Parse(s)
		if err != nil {
			return
		}
		if strings.ContainsAny(got, "\r\n\x00 <>,;:\"\\()[]") || strings.Count(got, "@") != 1 {
			t.Fatalf("%q became %q", s, got)
		}
		if simple(s) && check(s) != nil {
			t.Fatalf("%q is simple but not right", s)
		}
		again, err := Parse(got)
		if err != nil || again != got {
			t.Fatalf("%q became %q and then %q, %v", s, got, again, err)
		}
		wire, _, err := Wire(got)
		if err != nil {
			t.Fatalf("%q has no form on the wire: %v", got, err)
		}
		if _, err := mail.ParseAddress(wire); err != nil {
			t.Fatalf("%q is on the wire %q: %v", got, wire, err)
		}
	})
}
