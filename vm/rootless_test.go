//go:build linux

package main

import "testing"

// rootless runs the container engine's suite, with the attempts to escape, as an ordinary user, and then a server.
func rootless(t *testing.T, s *site) {
	s.run(t, stopped+"loginctl enable-linger dev")
	t.Run("install", func(t *testing.T) { userInstalls(t, s) }) //nolint:paralleltest // one after another
	t.Run("suite", func(t *testing.T) {                         //nolint:paralleltest // one after another
		s.suite(t, compiled{
			name: "rootless", user: "dev", env: "INGOT_SOAK=1", must: "TestEscape",
			may: "/(FixedPort|NoMemberLimit|LostForMemory|Disk)$",
		})
	})
}
