package suggest_test

import (
	"testing"

	"ingot/internal/cli/suggest"
)

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"lisen", "listen", 1}, {"listen", "listen", 0}, {"kitten", "sitting", 3}} {
		if got := suggest.Distance(tc.a, tc.b); got != tc.want {
			t.Errorf("%q to %q: %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestClosest(t *testing.T) {
	t.Parallel()
	commands := []string{"push", "app", "apps", "create-service"}
	for word, want := range map[string]string{"psuh": "push", "ap": "app", "create-servise": "create-service", "zzzzzz": "", "PUSH": "push"} {
		if got := suggest.Closest(word, commands); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
