package main

import (
	"os"
	"testing"
)

func TestReadOnlyFiles(t *testing.T) {
	t.Parallel()
	got := readOnlyFiles(`00400000-00600000 r-xp 00000000 08:01 5 /ingot/ingot-init
00600000-00700000 r--p 00200000 08:01 5 /ingot/ingot-init
00700000-00710000 rw-p 00300000 08:01 5 /ingot/ingot-init
00710000-00720000 rw-p 00000000 00:00 0
c000000000-c000400000 rw-p 00000000 00:00 0 [heap]
7ffc0000-7ffd0000 r-xp 00000000 00:00 0 [vdso]
nonsense
`)
	want := []mapping{{0x400000, 0x600000}, {0x600000, 0x700000}}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("the mappings are %x, want %x", got, want)
	}
	own, err := os.ReadFile("/proc/self/maps")
	if err != nil || len(readOnlyFiles(string(own))) == 0 {
		t.Errorf("this process has no mapping of its program: %v\n%s", err, own)
	}
}
