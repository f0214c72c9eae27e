//go:build linux

package main

import (
	"regexp"
	"testing"
)

// doctor runs `ingot doctor` as root and as an ordinary user.
func doctor(t *testing.T, s *site) {
	s.install(t)
	t.Run("root", func(t *testing.T) { //nolint:paralleltest // one after another
		s.expect(t, "ingot doctor", `(?m)^ok +engine +container \(a test container worked\)`)
	})
	t.Run("user", func(t *testing.T) { //nolint:paralleltest // one after another
		out, err := s.try(t, "dev", "ingot doctor")
		if !regexp.MustCompile(`(?m)^ok +engine +container \(a test container worked, without root\)`).MatchString(out) {
			t.Errorf("ingot doctor: %v\n%s\nwant containers", err, out)
		}
	})
}
