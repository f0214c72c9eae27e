package settings_test

import (
	"strings"
	"testing"

	"ingot/internal/server/settings"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	web := func(s string) error { return settings.URL(s, "http", "https") }
	postgres := func(s string) error { return settings.ServerURL(s, "postgres", "postgresql") }
	for _, c := range []struct {
		name  string
		check func(string) error
		good  []string
		bad   map[string]string // what the error contains
	}{
		{"address", settings.Address, []string{":0", "127.0.0.1:8080", "[::1]:22", "ingot.example:65535"}, map[string]string{
			"": "HOST:PORT", "8080": "HOST:PORT", ":65536": "no port", ":http": "no port", "user@host:1": "no valid host",
			"http://host:1": "HOST:PORT",
		}},
		{"optional address", settings.OptionalAddress, []string{"", ":25"}, map[string]string{"x": "HOST:PORT"}},
		{"host name", settings.HostName, []string{"localhost", "apps.example.com", "127-0-0-1.example"}, map[string]string{
			"": "a host name", "127.0.0.1": "is an address", "::1": "is an address", "a..b": "not a host name",
			"-a.example": "not a host name", "a_b.example": "not a host name", "A.example/": "not a host name",
			strings.Repeat("a.", 101): "at most 200",
		}},
		{"URL", web, []string{"", "https://ingot.example", "http://127.0.0.1:8080/uaa"}, map[string]string{
			"ftp://host": "begin with http://", "https://": "the host is missing", "https://host/?x=1": "a query",
			"https://ann:secret@host": "a user name", "http://[::1": "not a URL",
		}},
		{"database server", postgres, []string{"", "postgres://ann:secret@db:5432"}, map[string]string{
			"postgres://db:5432": "USER:PASSWORD", "mysql://ann:secret@db": "USER:PASSWORD",
			"postgres://ann:se%cret@db": "encoded",
		}},
	} {
		for _, s := range c.good {
			if err := c.check(s); err != nil {
				t.Errorf("%s %q: %v", c.name, s, err)
			}
		}
		for s, want := range c.bad {
			err := c.check(s)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s %q: %v, want an error with %q and no password", c.name, s, err, want)
			}
		}
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"":                            "",
		"https://api.example.com/":    "https://api.example.com",
		"https://api.example.com:443": "https://api.example.com",
		"http://api.example.com:80/":  "http://api.example.com", "http://api.example.com:443": "http://api.example.com:443",
		"https://[::1]:443": "https://[::1]", "https://host:8443/uaa/": "https://host:8443/uaa",
	} {
		if got := settings.Plain(s); got != want {
			t.Errorf("%q became %q, want %q", s, got, want)
		}
	}
}
