//go:build linux

package agentserver

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/platform/instance/agentproto"
	"ingot/internal/platform/instance/initproto"
)

// add writes a record of a size and returns its number.
func add(t *testing.T, w *initproto.Writer, size int) uint64 {
	t.Helper()
	seq, err := w.Append(initproto.Stdout, time.Unix(0, 1), 0, bytes.Repeat([]byte("x"), size))
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

// all reads the available records.
func all(t *testing.T, c *cursor) (seqs []uint64, over bool) {
	t.Helper()
	buf := make([]byte, agentproto.MaxFrame)
	for {
		batch, over, err := c.next(buf)
		if err != nil {
			t.Fatal(err)
		}
		if len(batch) == 0 {
			return seqs, over
		}
		for line := range bytes.Lines(batch) {
			r, err := initproto.ParseRecord(line)
			if err != nil {
				t.Fatal(err)
			}
			seqs = append(seqs, r.Seq)
		}
	}
}

func TestRing(t *testing.T) {
	t.Parallel()
	for name, dirs := range map[string][]string{"files": {t.TempDir()}, "memory": {filepath.Join(t.TempDir(), "none")},
		"none": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRing(dirs...)
			w := initproto.NewStreamWriter(r)
			for range 3 {
				add(t, w, 10)
			}
			c := r.read(1)
			defer c.close()
			if got, over := all(t, c); !slices.Equal(got, []uint64{2, 3}) || over {
				t.Errorf("after 1: %v, %t, want 2 and 3", got, over)
			}
			r.ack(3)
			add(t, w, initproto.MaxLineSize)
			select {
			case <-c.wake:
			case <-time.After(time.Minute):
				t.Fatal("a new record does not wake the reader")
			}
			if got, _ := all(t, c); !slices.Equal(got, []uint64{4}) {
				t.Errorf("later: %v, want 4", got)
			}
			r.ack(99) // was not written: ignored
			r.finish()
			if _, over := all(t, c); !over || closed(r.done) {
				t.Errorf("after the end: over %t, acknowledged %t, want true and false", over, closed(r.done))
			}
			if r.ack(4); !closed(r.done) {
				t.Error("the last record is acknowledged, but the ring does not say so")
			}
			again := r.read(4)
			defer again.close()
			if got, over := all(t, again); len(got) > 0 || !over {
				t.Errorf("after the last: %v, %t, want none and the end", got, over)
			}
			if dirs != nil {
				if left, _ := os.ReadDir(dirs[0]); len(left) > 0 {
					t.Errorf("the files have names: %v", left)
				}
			}
		})
	}
}

// TestRingFull: when the ring is full the oldest records are missing, the rest is in order.
func TestRingFull(t *testing.T) {
	t.Parallel()
	r := newRing(t.TempDir())
	w := initproto.NewStreamWriter(r)
	behind := r.read(0)
	defer behind.close()
	const size = 50_000
	add(t, w, size)
	if got, _ := all(t, behind); !slices.Equal(got, []uint64{1}) {
		t.Fatalf("first %v, want 1", got)
	}
	last := uint64(0)
	for range 3 * segments * segmentSize / size {
		last = add(t, w, size)
	}
	got, _ := all(t, behind)
	if len(got) == 0 || got[0] <= 2 || got[len(got)-1] != last {
		t.Fatalf("records %v, want a gap and then all up to %d", got, last)
	}
	for i, seq := range got[1:] {
		if seq != got[i]+1 {
			t.Errorf("record %d follows %d", seq, got[i])
		}
	}
	if kept := len(got) * size; kept < (segments-2)*segmentSize || kept > segments*segmentSize {
		t.Errorf("%d bytes are kept, want about %d", kept, segments*segmentSize)
	}
	// Acknowledged segments are dropped.
	r.ack(last)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.segs) != 1 {
		t.Errorf("%d segments after all were acknowledged, want 1", len(r.segs))
	}
}

func TestUnpackRefuses(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		entries []entry
		target  string
	}{
		"dots":         {entries: []entry{{name: "../x", body: "x"}}},
		"absolute":     {entries: []entry{{name: "/tmp/x", body: "x"}}},
		"target":       {entries: []entry{{name: "x", body: "x"}}, target: "../up"},
		"through link": {entries: []entry{{name: "l", link: outside}, {name: "l/x", body: "x"}}},
		"over link": {entries: []entry{{name: "l", link: outside}, {name: "l/", dir: true},
			{name: "l/../../x", body: "x"}}},
		"hard link":    {entries: []entry{{name: "h", hard: "/etc/passwd"}}},
		"hard link up": {entries: []entry{{name: "h", hard: "../x"}}},
		"hard by link": {entries: []entry{{name: "l", link: outside}, {name: "h", hard: "l/x"}}},
		"device":       {entries: []entry{{name: "d", device: true}}},
		"larger": {entries: []entry{{name: "a", body: strings.Repeat("x", 600)},
			{name: "b", body: strings.Repeat("x", 600)}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, err := os.OpenRoot(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			if err := unpack(root, c.target, tarOf(t, c.entries...), 1000); err == nil {
				t.Error("it was unpacked")
			}
			if left, _ := os.ReadDir(outside); len(left) > 0 {
				t.Errorf("outside: %v", left)
			}
		})
	}
}

func TestUnpackReplaces(t *testing.T) {
	t.Parallel()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, archive := range []io.Reader{
		tarOf(t, entry{name: "app/a", body: "old"}, entry{name: "app/dir/b", body: "b"}, entry{name: "app/link", link: "a"}),
		tarOf(t, entry{name: "app/a/inner", body: "new"}, entry{name: "app/dir", body: "file now"},
			entry{name: "app/link", body: "own"}, entry{name: "app/h", hard: "app/link"}),
	} {
		if err := unpack(root, "", archive, 0); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"app/a/inner": "new", "app/dir": "file now", "app/link": "own",
		"app/h": "own"} {
		if b, err := root.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("%s is %q, %v, want %q", name, b, err, want)
		}
	}
}

func TestCgroups(t *testing.T) {
	t.Parallel()
	write := func(root, name, content string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	two := t.TempDir()
	write(two, "memory.current", "1000\n")
	write(two, "memory.stat", "anon 5\ninactive_file 300\n")
	write(two, "memory.events", "oom 9\noom_kill 2\n")
	write(two, "cpu.stat", "usage_usec 1500000\nuser_usec 1\n")
	one := t.TempDir()
	write(one, "memory/kubepods/x/memory.usage_in_bytes", "2000\n")
	write(one, "memory/kubepods/x/memory.stat", "total_inactive_file 500\n")
	write(one, "memory/kubepods/x/memory.oom_control", "under_oom 0\noom_kill 1\n")
	write(one, "cpuacct/kubepods/x/cpuacct.usage", "2500000000\n")
	for name, c := range map[string]struct {
		root, groups string
		first        bool
		want         string
	}{
		"version 2":          {two, "0::/\n", true, "700 2 1.5s"},
		"version 2, outside": {two, "0::/../other\n", true, "700 2 1.5s"},
		"version 1":          {one, "4:cpu,cpuacct:/kubepods/x\n5:memory:/kubepods/x\n", true, "1500 1 2.5s"},
		"a machine's root":   {two, "0::/\n", false, ""},
		"none":               {t.TempDir(), "0::/x\n", true, ""},
		"strange":            {two, "hello\n\n1:2\n", true, ""},
	} {
		group, got := findCgroup(c.root, c.groups, c.first), ""
		if group != (cgroup{}) {
			u := group.read()
			got = fmt.Sprint(u.Memory, u.OOMKills, u.CPUTime)
		}
		if got = strings.ReplaceAll(got, "  ", " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if u := readTable().below(os.Getpid()); u.Memory <= 0 || u.CPUTime < 0 {
		t.Errorf("this process uses %+v", u)
	}
}
