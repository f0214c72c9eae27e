package mtasts_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/notify/mail/mtasts"
)

func TestParseRecord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		texts []string
		id    string
		says  string
	}{
		"one":              {texts: []string{"v=STSv1; id=20260101T000000;"}, id: "20260101T000000"},
		"beside others":    {texts: []string{"v=spf1 -all", "v=STSv1;id=7", "v=STSv2; id=8"}, id: "7"},
		"further fields":   {texts: []string{"v=STSv1; x=y; id = a1 ; id=b2"}, id: "a1"},
		"none":             {says: "no record"},
		"only others":      {texts: []string{"STSv1", "v=STSv1a; id=1", "id=1; v=STSv1"}, says: "no record"},
		"two":              {texts: []string{"v=STSv1; id=1", "v=STSv1; id=2"}, says: "2 records"},
		"no id":            {texts: []string{"v=STSv1;"}, says: "no id"},
		"an empty id":      {texts: []string{"v=STSv1; id="}, says: "no id"},
		"an id with signs": {texts: []string{"v=STSv1; id=2026-01-01"}, says: "no id"},
		"a long id":        {texts: []string{"v=STSv1; id=" + strings.Repeat("1", 33)}, says: "no id"},
	} {
		id, err := mtasts.ParseRecord(c.texts)
		if id != c.id || (err == nil) != (c.says == "") || (err != nil && !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: got %q, %v, want %q, %q", name, id, err, c.id, c.says)
		}
		if errors.Is(err, mtasts.ErrNoRecord) != (c.says == "no record") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

func TestParsePolicy(t *testing.T) {
	t.Parallel()
	const good = "version: STSv1\r\nmode: enforce\r\nmx: MX1.example.com\r\nmx:*.mail.example.com.\r\nmax_age: 604800\r\n"
	p, err := mtasts.ParsePolicy(good)
	if err != nil || p.Mode != mtasts.Enforce || p.MaxAge != 7*24*time.Hour ||
		!slices.Equal(p.MX, []string{"mx1.example.com", "*.mail.example.com"}) {
		t.Fatalf("got %+v, %v", p, err)
	}
	for host, want := range map[string]bool{
		"mx1.example.com": true, "mx1.EXAMPLE.com.": true, "a.mail.example.com": true,
		"mail.example.com": false, "a.b.mail.example.com": false, "mx2.example.com": false, "": false,
		"mx1.example.com.evil.example": false,
	} {
		if p.Matches(host) != want {
			t.Errorf("%q matches: %t", host, !want)
		}
	}
	for name, c := range map[string]struct{ change, to, says string }{
		"newlines only":       {"\r\n", "\n", ""},
		"unknown fields":      {"mode:", "future: x:y\r\nmode:", ""},
		"first mode counts":   {"max_age", "mode: none\r\nmax_age", ""},
		"no version":          {"version: STSv1", "", "version: STSv1"},
		"another version":     {"STSv1", "STSv2", "version: STSv1"},
		"unknown mode":        {"enforce", "Enforce", "its mode"},
		"no mode":             {"mode: enforce", "", "its mode"},
		"no age":              {"max_age: 604800", "", "max_age"},
		"negative age":        {"604800", "-1", "max_age"},
		"more than a year":    {"604800", "31557601", "max_age"},
		"address as a server": {"MX1.example.com", "[192.0.2.1]", "not the name of a mail server"},
		"wildcard within":     {"MX1.example.com", "mx.*.com", "not the name of a mail server"},
		"empty server":        {"MX1.example.com", "", "not the name of a mail server"},
		"a page":              {"version", "<html>\r\nversion", "name: value"},
	} {
		_, err := mtasts.ParsePolicy(strings.ReplaceAll(good, c.change, c.to))
		if (err == nil) != (c.says == "") || (err != nil && !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	if _, err := mtasts.ParsePolicy("version: STSv1\nmode: enforce\nmax_age: 1\n"); err == nil {
		t.Error("a policy without mail servers is accepted")
	}
	if _, err := mtasts.ParsePolicy("version: STSv1\nmode: none\nmax_age: 86400\n"); err != nil {
		t.Errorf("a policy that is withdrawn: %v", err)
	}
}

func FuzzParsePolicy(f *testing.F) {
	for _, s := range []string{"", "version: STSv1\nmode: none\nmax_age: 1\n", "mx: *.\n", ":\n", "mx: \xff\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := mtasts.ParsePolicy(s)
		if err == nil && (p.MaxAge < 0 || p.Mode != mtasts.None && len(p.MX) == 0 || p.Matches("")) {
			t.Errorf("%q is %+v", s, p)
		}
	})
}
