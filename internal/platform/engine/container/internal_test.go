//go:build linux

package container

import (
	"strings"
	"testing"

	"ingot/internal/platform/engine"
)

func TestHostname(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"a": "a", "A.b_c-9": "A-b-c-9", strings.Repeat("x", 100): strings.Repeat("x", 63),
	} {
		if got := hostname(id); got != want {
			t.Errorf("host name of %s is %s, want %s", id, got, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	l := withDefaults(engine.Limits{})
	if l.Memory != defaultMemory || l.Disk != defaultDisk || l.CPU != defaultShares || l.PIDs != defaultPIDs ||
		l.Files <= 0 {
		t.Errorf("limits are %+v, want the defaults", l)
	}
	if l := withDefaults(engine.Limits{Memory: 1, Disk: 1, CPU: 1, Files: 1 << 40}); l.Memory < smallestMemory ||
		l.Disk < smallestDisk || l.CPU < 2 || uint64(l.Files) > hardFiles() {
		t.Errorf("limits are %+v, want the smallest ones allowed and at most %d files", l, hardFiles())
	}
}

func TestNumeric(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"localhost:80": "127.0.0.1:80 [::1]:80", ":80": "127.0.0.1:80 [::1]:80", "10.1.2.3:80": "10.1.2.3:80",
		"[::1]:80": "[::1]:80",
	} {
		if got, err := numeric(address); err != nil || strings.Join(got, " ") != want {
			t.Errorf("numeric form of %s is %v, %v, want %s", address, got, err, want)
		}
	}
	for _, address := range []string{"", "x", "example.com:80", "localhost:http", "localhost:99999"} {
		if got, err := numeric(address); err == nil {
			t.Errorf("numeric form of %q is %v, want an error", address, got)
		}
	}
}

func TestLastOfEach(t *testing.T) {
	t.Parallel()
	got := strings.Join(lastOfEach([]string{"A=1", "B=2", "A=3", "C=", "B=4"}), " ")
	if got != "A=3 C= B=4" {
		t.Errorf("got %q, want A=3 C= B=4", got)
	}
}

// Degrade makes an engine do without what some machines lack.
func Degrade(e *Engine) { e.sharing = false }
