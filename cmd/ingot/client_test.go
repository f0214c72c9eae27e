package main

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
)

func env(pairs ...string) func(string) string {
	set := map[string]string{"HOME": "/home/vcap"}
	for i := 0; i < len(pairs); i += 2 {
		set[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return set[name] }
}

// The name by which the program is called selects its role.
func TestName(t *testing.T) {
	t.Parallel()
	type call struct {
		name string
		args string
		code int
		want string
	}
	calls := []call{
		{"/usr/local/bin/cf", "push --help", 0, "cf push: "},
		{"cf", "", 0, "Everyday commands"},
		{"cf", "up", 2, "\"up\" is not a command"},
		{"cf", "version", 0, "ingot 0.1.0-dev"},
		{"cf", "--version", 0, "ingot 0.1.0-dev"},
		{"ingot", "help", 0, "\n  push "},
		{"ingot", "notifications", 0, "register KIND"},
	}
	if runtime.GOOS == "linux" {
		calls = append(calls, call{"ingot", "up --help", 0, "$INGOT_LISTEN"}, call{"ingot", "help", 0, "\n  up "})
	} else {
		for _, args := range []string{"up", "up --help", "help up", "backup status", "notifications --auth-url x"} {
			calls = append(calls, call{"ingot", args, 1, "needs Linux"})
		}
	}
	for _, tc := range calls {
		var out, errs bytes.Buffer
		p := &process{name: tc.name, args: strings.Fields(tc.args), getenv: env(), uid: 1000, out: &out, err: &errs}
		if code := p.run(); code != tc.code || !strings.Contains(out.String()+errs.String(), tc.want) {
			t.Errorf("%s %s: exit code %d, want %d and %q\n%s%s", tc.name, tc.args, code, tc.code, tc.want, &out, &errs)
		}
	}
}
