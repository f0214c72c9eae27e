package notify_test

import (
	"strings"
	"testing"

	"ingot/internal/notify"
)

func TestUsableAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"a@example.com": true, "first.last+tag@sub.example.com": true, "o'neil@example.com": true, "user@[192.0.2.1]": true,
		"jörg@exämple.de": true, `"a b"@example.com`: true, "a@localhost": true,
		"": false, "a": false, "@b": false, "a@": false, "a b@example.com": false, "a@b c": false, "a@b,c@d": false,
		"a@b\r\nRCPT TO:<x@y>": false, "a\x00@b": false, "A <a@b>": false, "<a@b>": false, "a..b@example.com": false,
		".a@example.com":                    false,
		strings.Repeat("x", 250) + "@b.com": false,
	} {
		if got := notify.UsableAddress(address); got != want {
			t.Errorf("%q: %t, want %t", address, got, want)
		}
	}
}

func TestCheckWebhookURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"https://example.com/hook?x=1": true, "http://127.0.0.1:8080/": true,
		"": false, "ftp://example.com": false, "file:///etc/passwd": false, "https://": false, "https:example.com": false,
		"https://user:pass@example.com/": false, "https://example.com/" + strings.Repeat("x", 2000): false, ":": false,
	} {
		if err := notify.CheckWebhookURL(text); (err == nil) != want {
			t.Errorf("checking %q: error is %v, want allowed %v", text, err, want)
		}
	}
}
