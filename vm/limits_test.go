//go:build linux

package main

import (
	"strings"
	"testing"
)

// limits checks that limits hold, and that users see why an app ended.
func limits(t *testing.T, s *site) {
	s.install(t)
	s.push(t, "greedy", "-m 64M -k 64M")
	s.answers(t, "greedy")
	t.Run("disk", func(t *testing.T) { //nolint:paralleltest // one after another: they share the app
		body, err := s.get(t.Context(), "greedy", "/fill/200")
		if err != nil || !strings.Contains(body, "no space left on device") && !strings.Contains(body, "quota exceeded") {
			t.Errorf("200 MB on a disk of 64 MB: %q, %v, want a full disk", body, err)
		}
		s.answers(t, "greedy") // it runs on
	})
	t.Run("processes", func(t *testing.T) { //nolint:paralleltest // one after another
		s.run(t, "ingot scale greedy -m 1G -f") // so that memory is not the limit
		s.answers(t, "greedy")
		before := s.instances(t)
		body, err := s.get(t.Context(), "greedy", "/fork/5000")
		if err != nil || !strings.Contains(body, "resource temporarily unavailable") {
			t.Errorf("5000 processes: %q, %v, want that they are refused", body, err)
		}
		s.answers(t, "greedy") // it runs on, and so does the guest
		s.sameInstances(t, "processes", before)
		s.run(t, "ingot scale greedy -m 64M -f")
		s.answers(t, "greedy")
	})
	t.Run("memory", func(t *testing.T) { //nolint:paralleltest // one after another
		if body, err := s.get(t.Context(), "greedy", "/eat/200"); err == nil {
			t.Errorf("200 MB in an app of 64 MB: %q", body)
		}
		eventually(t, "the event says why", func() bool {
			out, _ := s.try(t, "root", "ingot events greedy")
			return strings.Contains(out, "out of memory")
		})
		s.answers(t, "greedy") // started again
		s.expect(t, "ingot events greedy", `(?m)app\.crash.*out of memory`)
	})
	t.Run("sidecar", func(t *testing.T) { sidecar(t, s) }) //nolint:paralleltest // one after another
	t.Run("processor", func(t *testing.T) {                //nolint:paralleltest // one after another
		// Shares of the processor are those of memory.
		s.push(t, "large", "-m 256M -k 64M")
		const weight = `weight() { for p in $(pgrep -f '^/.ingot-init'); do if tr '\0' '\n' </proc/$(pgrep -P $p | head -n 1)/environ | grep -q "^WORD=word-of-$1$"; then cat /sys/fs/cgroup/$(cut -d : -f 3 /proc/$p/cgroup)/cpu.weight; fi; done; }; `
		s.expect(t, weight+`small=$(weight greedy) large=$(weight large); echo "$small $large"; [ "$small" -lt "$large" ] && echo less`, "less$")
	})
	s.run(t, "ingot delete -f -r greedy; ingot delete -f -r large")
}

// sidecar has a sidecar with its own memory limit exceed it: only the sidecar is ended.
func sidecar(t *testing.T, s *site) {
	t.Helper()
	s.run(t, `mkdir -p /tmp/guarded && cp /files/app/app /tmp/guarded/ && cd /tmp/guarded && cat >manifest.yml <<'M'
applications:
- name: guarded
  buildpacks: [binary_buildpack]
  command: ./app
  memory: 128M
  disk_quota: 64M
  env: {WORD: word-of-guarded}
  sidecars:
  - name: hog
    process_types: [web]
    command: ./app hog eat 100
    memory: 32M
    memory-enforced: true
    restart: on-failure
M
ingot push`)
	s.answers(t, "guarded")
	before := s.instances(t)
	if body, err := s.get(t.Context(), "guarded", "/touch/eat"); err != nil {
		t.Fatal(body, err)
	}
	eventually(t, "the event says why", func() bool {
		out, _ := s.try(t, "root", "ingot events guarded")
		return strings.Contains(out, "sidecar hog exceeded its limit of 32M")
	})
	s.answers(t, "guarded")
	s.sameInstances(t, "sidecar", before)
	s.run(t, "ingot delete -f -r guarded")
}
