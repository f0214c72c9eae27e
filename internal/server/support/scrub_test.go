package support

import (
	"strings"
	"testing"
)

// TestScrubber: secrets of every form that the platform has are removed from a text, also those
// that the command does not know, and what a reader needs stays.
func TestScrubber(t *testing.T) {
	t.Parallel()
	s := NewScrubber("known/secret&1", "first-key,second-key\n", "abc", "")
	for _, tc := range []struct{ name, text, gone, stays string }{
		{"known", "error: known/secret&1 is wrong", "known/secret&1", "is wrong"},
		{"known in a URL", "GET /x?y=known%2Fsecret%261", "known%2Fsecret", "GET /x"},
		{"known in JSON", `{"x":"known/secret\u00261"}`, `secret\u00261`, `{"x":`},
		{"known in base64", "a25vd24vc2VjcmV0JjE= was sent", "a25vd24vc2VjcmV0JjE", "was sent"},
		{"one of a list", "second-key does not open it", "second-key", "does not open it"},
		{"too short to search for", "abcdef", "", "abcdef"},
		{"PostgreSQL", "connect postgres://ingot:hunter2@db/ingot", "hunter2", "@db/ingot"},
		{"PostgreSQL with @", "postgres://ingot:hun@ter2@db/ingot", "ter2", "@db/ingot"},
		{"MySQL", "root:hunter2@tcp(10.0.0.1:3306)/x", "hunter2", "tcp(10.0.0.1"},
		{"SMTP", "dial smtp://me:hunter2@mail.example.com:587 failed", "hunter2", "mail.example.com:587 failed"},
		{"registry", `"url":"https://bot:hunter2@registry.example.com/v2/"`, "hunter2", "registry.example.com"},
		{"JWT", "token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl of x", "eyJzdWIi", "of x"},
		{"bearer", "Authorization: bearer abcd-1234", "abcd-1234", "Authorization"},
		{"basic", "sent Basic YWRtaW46aHVudGVyMg==, refused", "YWRtaW46", "refused"},
		{"bcrypt", "hash $2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy.", "N9qo8uLO", "hash"},
		{"SCRAM", "SCRAM-SHA-256$4096:c2FsdA==$x:y of role r", "c2FsdA", "of role r"},
		{"PEM", "key -----BEGIN EC PRIVATE KEY-----\nMHcCAQ\n-----END EC PRIVATE KEY----- end", "MHcCAQ", "end"},
		{"PEM in JSON", `{"key":"-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n","n":1}`, "MIIE", `"n":1`},
		{"PEM without its end", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz\nAAAA", "b3BlbnNz", ""},
		{"backup key", "AGE-SECRET-KEY-1QQQQQQ is", "1QQQQQQ", "is"},
		{"signing key", "INGOT-SIGNING-KEY-ABCDEF is", "ABCDEF", "is"},
		{"S3 key", "key AKIAIOSFODNN7EXAMPLE denied", "AKIAIOSFODNN7EXAMPLE", "denied"},
		{"S3 URL", "https://s3/b?X-Amz-Signature=abc123&x=1", "abc123", "x=1"},
		{"login code", "GET /login?code=Zm9vYmFy&x=1", "Zm9vYmFy", "x=1"},
		{"password", `{"user":"eve","password":"hunter2","n":1}`, "hunter2", `"n":1`},
		{"password with a quote", `{"password":"hun\"ter2","n":1}`, "ter2", `"n":1`},
		{"JSON in JSON", `{"body":"{\"client_secret\":\"hunter2\"}","n":1}`, "hunter2", `"n":1`},
		{"shell", "export DB_PASSWORD=hunter2 x", "hunter2", " x"},
		{"YAML", "  api_key: hunter2", "hunter2", "api_key"},
		{"object", `"credentials":{"uri":"x","name":"hunter2"}`, "hunter2", "credentials"},
		{"services", `VCAP_SERVICES={"postgres":[{"x":"hunter2"}]}`, "hunter2", "VCAP_"},
		{"random", "refresh Xq3vT8pLw2ZkR7yN5sB1cF6hJ9mD4gAe done", "Xq3vT8pLw2", "done"},
		{"mail", "delivered to ann.lee+x@example.com at 5", "ann.lee", "at 5"},
		{"mail at localhost", "user admin@localhost", "admin@localhost", "user"},
		// What has to stay.
		{"stack", "golang.org/x/net@v0.30.0/http2/transport.go:123 +0x1f", "", "net@v0.30.0/http2/transport.go:123"},
		{"function", "ingot/internal/platform/engine/container.(*Engine).startInstanceWithLongName2(0xc0001)", "",
			"startInstanceWithLongName2"},
		{"path", "/tmp/TestSupportBundle1206742991/001/data", "", "TestSupportBundle1206742991"},
		{"GUID", "app=6f1c1d6e-2f57-4d3a-9f0b-1c2d3e4f5a6b", "", "6f1c1d6e-2f57-4d3a-9f0b-1c2d3e4f5a6b"},
		{"checksum", "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "", "9f86d081884c7d65"},
		{"metric", `ingot_logins_total{result="wrong_password"} 5`, "", `result="wrong_password"} 5`},
	} {
		got := string(s.Text([]byte(tc.text)))
		if tc.gone != "" && strings.Contains(got, tc.gone) || !strings.Contains(got, tc.stays) {
			t.Errorf("%s: got %q, want it without %q and with %q", tc.name, got, tc.gone, tc.stays)
		}
	}
}
