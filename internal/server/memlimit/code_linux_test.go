package memlimit

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

//nolint:paralleltest // other tests would map pages meanwhile
func TestReleaseCode(t *testing.T) {
	before := rssFile(t)
	if err := ReleaseCode(); err != nil {
		t.Fatal(err)
	}
	runtime.GC() // runs code and reads the tables of types and stacks
	if after := rssFile(t); after > before {
		t.Errorf("resident pages of files: %d kB after, %d kB before", after, before)
	}
}

func TestCodeRange(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"00400000-02a4f000 r-xp 00000000 fe:00 12 /srv/in got":              true,
		"02a4f000-03b00000 r--p 0264f000 fe:00 12 /srv/in got":              true,
		"03b00000-03b80000 rw-p 03700000 fe:00 12 /srv/in got":              false, // changed data
		"7f0000000000-7f0000001000 r--s 00000000 fe:00 13 /srv/in got":      false, // shared
		"7f0000000000-7f0000001000 r--p 00000000 fe:00 13 /usr/lib/libc.so": false,
		"7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0 [vdso]":            false,
		"7f0000000000-7f0000001000 rw-p 00000000 00:00 0":                   false,
		"": false,
		"00400000-02a4f000 r-xp 00000000 fe:00 12 /srv/in got (deleted)": false,
		"00400000-02a4f000 ---p 00000000 fe:00 12 /srv/in got":           false,
	} {
		if _, _, got := codeRange(line, "/srv/in got"); got != want {
			t.Errorf("%q: %v, want %v", line, got, want)
		}
	}
}

func rssFile(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "RssFile:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no RssFile in /proc/self/status")
	return 0
}
