package actions

import (
	"strings"
	"testing"

	"ingot/internal/platform"
)

// A name becomes part of the source of log lines, so it has what those can have.
func TestTaskNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"migrate":                        "",
		"größe 7":                        "",
		strings.Repeat("n", 255):         "",
		strings.Repeat("é", 127):         "",
		strings.Repeat("n", 256):         "Name is too long (maximum is 255 bytes)",
		strings.Repeat("\U0001f600", 64): "Name is too long (maximum is 255 bytes)",
		"a\xffb":                         "Name must be valid UTF-8",
		"a\x00b":                         "Name must not contain control characters",
		"a\x7fb":                         "Name must not contain control characters",
		"a\u0085b":                       "Name must not contain control characters",
		"a\u009bb":                       "Name must not contain control characters",
		" ":                              "Name can't be blank",
	} {
		err := checkTask(&platform.Task{Name: name, Command: "x", MemoryMB: 1, DiskMB: 1, LogRate: -1})
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", name, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}

func TestTaskShare(t *testing.T) {
	t.Parallel()
	for places, want := range map[int]int{1: 1, 2: 1, 3: 2, 4: 3, 64: 48, 1000: 750} {
		if got := TaskShare(places); got != want {
			t.Errorf("of %d places an organization may hold %d, want %d", places, got, want)
		}
	}
}
