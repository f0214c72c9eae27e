//go:build linux

package local

import (
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	const rest = " S 7 8 9 0 -1 4194560 1 2 3 4 100 50 25 25 20 0 3 0 987654 1000000 3 18446744073709551615 1 1"
	for name, line := range map[string]string{
		"plain":       "42 (sh)" + rest,
		"parentheses": "42 (a) R 1 (b)" + rest,
		"line break":  "42 (a\nb)" + rest,
		"empty":       "42 ()" + rest,
	} {
		s, err := parseStat([]byte(line))
		if err != nil || s.PID != 42 || s.State != 'S' || s.Parent != 7 || s.Group != 8 || s.Session != 9 ||
			s.Threads != 3 || s.Start != 987654 || s.CPU != 2*time.Second || s.Memory <= 0 {
			t.Errorf("%s: process is %+v, %v, want the fields of 42", name, s, err)
		}
	}
	for _, line := range []string{"", "42", "42 (sh", "42 (sh) S 1 2", "x (sh)" + rest, ") ("} {
		if s, err := parseStat([]byte(line)); err == nil {
			t.Errorf("%q is %+v, want an error", line, s)
		}
	}
}
