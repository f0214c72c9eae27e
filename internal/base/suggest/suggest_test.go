package suggest_test

import (
	"testing"

	"ingot/internal/base/suggest"
)

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"lisen", "listen", 1}, {"listen", "listen", 0}, {"kitten", "sitting", 3},
		{"memroy", "memory", 1},
		{"psuh", "push", 1}, {"ab", "ba", 1}, {"größe", "grösse", 2},
	} {
		if got := suggest.Distance(tc.a, tc.b); got != tc.want {
			t.Errorf("%q to %q: %d, want %d", tc.a, tc.b, got, tc.want)
		}
		if got := suggest.Distance(tc.b, tc.a); got != tc.want {
			t.Errorf("%q to %q: %d, want %d", tc.b, tc.a, got, tc.want)
		}
	}
}

func TestClosest(t *testing.T) {
	t.Parallel()
	commands := []string{"push", "app", "apps", "create-service", "demo", "version", "env"}
	for word, want := range map[string]string{
		"psuh": "push", "ap": "app", "create-servise": "create-service", "crate-serivce": "create-service", "zzzzzz": "",
		"PUSH":   "push",
		"deploy": "", "revisions": "", "ls": "", "x": "", "help": "", "verzion": "version",
	} {
		if got := suggest.Closest(word, commands); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
