package cli_test

import (
	"strings"
	"testing"
)

// TestGitCredential gives git a token for the API, and nothing for any other host.
func TestGitCredential(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	scheme, host, _ := strings.Cut(w.api.URL, "://")
	answer := "username=admin\npassword=" + w.saved(t, "").AccessToken + "\n"
	for _, c := range []struct{ action, in, want string }{
		{"get", "protocol=" + scheme + "\nhost=" + host + "\npath=git/acme/dev/shop\n\n", answer},
		{"get", "protocol=" + scheme + "\nhost=" + strings.ToUpper(host) + "\n", answer},
		{"get", "protocol=https\nhost=" + host + "\n\n", ""},
		{"get", "protocol=" + scheme + "\nhost=example.com\n\n", ""},
		{"get", "protocol=" + scheme + "\n\nhost=" + host + "\n", ""},
		{"get", "", ""},
		{"store", "protocol=" + scheme + "\nhost=" + host + "\npassword=x\n", ""},
		{"erase", "protocol=" + scheme + "\nhost=" + host + "\n", ""},
	} {
		w.in = c.in
		out, errs, code := w.run("git-credential", c.action)
		if out != c.want || errs != "" || code != 0 {
			t.Errorf("%s %q: %q, %q, exit code %d, want %q", c.action, c.in, out, errs, code, c.want)
		}
	}
}
