package main

import (
	"bytes"
	"strings"
	"testing"
)

// The name by which the program is called selects its role.
func TestName(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args string
		code int
		want string
	}{
		{"/usr/local/bin/cf", "push --help", 0, "cf push: "},
		{"cf", "", 0, "Everyday commands"},
		{"cf", "up", 2, "\"up\" is not a command"},
		{"cf", "version", 0, "ingot 0.1.0-dev"},
		{"cf", "--version", 0, "ingot 0.1.0-dev"},
		{"ingot", "up --help", 0, "$INGOT_LISTEN"},
		{"ingot", "help", 0, "\n  up "},
	} {
		var out, errs bytes.Buffer
		p := &process{name: tc.name, args: strings.Fields(tc.args), getenv: env(), uid: 1000, out: &out, err: &errs}
		if code := p.run(); code != tc.code || !strings.Contains(out.String()+errs.String(), tc.want) {
			t.Errorf("%s %s: exit code %d, want %d and %q\n%s%s", tc.name, tc.args, code, tc.code, tc.want, &out, &errs)
		}
	}
}
