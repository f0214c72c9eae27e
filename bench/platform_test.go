package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// The upload is the same as cf's: a form with a list and a zip.
func TestUpload(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("content"), 0o755); err != nil {
		t.Fatal(err)
	}
	up, err := newUpload(program, "mark one")
	if err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(up.kind)
	if err != nil {
		t.Fatal(err)
	}
	form, err := multipart.NewReader(bytes.NewReader(up.body), params["boundary"]).ReadForm(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if got := form.Value["resources"]; !slices.Equal(got, []string{"[]"}) {
		t.Errorf("resources %q", got)
	}
	f, err := form.File["bits"][0].Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zip.NewReader(f, form.File["bits"][0].Size)
	if err != nil {
		t.Fatal(err)
	}
	file, err := z.Open("app")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(file); err != nil || string(got) != "contentmark one" {
		t.Errorf("the program is %q, %v", got, err)
	}
	if mode := z.File[0].Mode(); mode.Perm() != 0o755 {
		t.Errorf("the program has mode %s", mode)
	}
}

// Other lines are ignored.
func TestLogLines(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log")
	const text = `{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"apps run in containers","why":"a trial"}
not JSON
{"msg":"other","files":["a"]}
{"time":"2026-01-01T00:00:01Z","level":"DEBUG","msg":"instance started","instance":"i","files":1000000,"create":2000000}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := (&Server{log: file}).logLines()
	if err != nil || len(lines) != 2 || lines[0].Why != "a trial" || lines[1].Instance != "i" ||
		lines[1].Create != 2*time.Millisecond {
		t.Errorf("lines are %+v, %v, want a trial and instance i created in 2ms", lines, err)
	}
}

func TestTopOf(t *testing.T) {
	t.Parallel()
	const text = `File: ingot
Duration: 3s, Total samples = 2.68s (89.32%)
      flat  flat%   sum%        cum   cum%
         0     0%     0%      2.5s 94.00%  net/http.(*conn).serve
         0     0%     0%      2.5s 94.00%  ingot/internal/base/web.(*Mux).ServeHTTP (inline)
     0.01s  0.24%  0.24%      2.3s 86.00%  ingot/internal/platform/platformdb.repo[go.shape.struct { A string }].List
         0     0%     0%      2.2s 81.00%  ingot/internal/platform/platformdb.repo[go.shape.struct { B string }].List
         0     0%     0%      0.1s  4.00%  ingot/internal/small.Thing
`
	const want = "Duration: 3s, Total samples = 2.68s (89.32%); 86 % ingot/internal/platform/platformdb.repo.List"
	if got := topOf(text); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestProportionalMemory(t *testing.T) {
	t.Parallel()
	mb, err := parseProportional("00400000-7fff [rollup]\nRss:   4000 kB\nPss:   2000 kB\nPss_Anon:  10 kB\n")
	if err != nil || math.Abs(mb-2.048) > 1e-9 {
		t.Errorf("memory is %v MB, %v, want 2.048", mb, err)
	}
	if _, err := parseProportional("00400000-7fff [rollup]\nRss:   4000 kB\n"); err == nil {
		t.Error("what is missing was made up")
	}
}

func TestLargestMappings(t *testing.T) {
	t.Parallel()
	const smaps = `00400000-00500000 r-xp 00000000 08:01 1   /.ingot-init
Size:   1024 kB
Rss:     900 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Rss:    1200 kB
7fff0000-7fff1000 r--p 00000000 00:00 0   [vvar]
Rss:       0 kB
`
	if got := largestMappings(smaps, 5); got != "rw-p anonymous 1200 KiB, r-xp /.ingot-init 900 KiB" {
		t.Errorf("mappings are %q, want the two that are not empty", got)
	}
	if got := largestMappings(smaps, 1); got != "rw-p anonymous 1200 KiB" {
		t.Errorf("mappings are %q, want only the largest", got)
	}
}

// The first process of an instance is identified by its name and by the
// instance's guid; this test has neither.
func TestFindInits(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		t.Skip("no /proc")
	}
	for _, instances := range [][]string{nil, {""}, {"no-such-instance"}} {
		if found, err := findInits(instances); err != nil || len(found) != 0 {
			t.Errorf("processes of %q are %v, %v, want none", instances, found, err)
		}
	}
}

func TestBareConfig(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(bareConfig("/root", "/group"))
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Root  struct{ Path string }
		Linux struct {
			CgroupsPath string
			Namespaces  []struct{ Type string }
		}
	}
	if err := json.Unmarshal(text, &c); err != nil || c.Root.Path != "/root" || c.Linux.CgroupsPath != "/group" ||
		len(c.Linux.Namespaces) != 7 {
		t.Errorf("config is %+v, %v, want /root in /group with 7 namespaces", c, err)
	}
}

// The figure that misses its goal by most is returned.
func TestListFigures(t *testing.T) {
	t.Parallel()
	r := &Report{out: io.Discard}
	r.enter(Section{Name: "x"})
	took := func(ms int) []time.Duration { return []time.Duration{time.Duration(ms) * time.Millisecond} }
	health := &question{name: "health", latencies: took(1)}
	good := &question{name: "good", latencies: took(2), goal: Below(10)}
	bad := &question{name: "bad", latencies: took(20), goal: Below(10)}
	worse := &question{name: "worse", latencies: took(30), goal: Below(10)}
	free := &question{name: "free", latencies: took(90)}
	if got := listFigures(r, []*question{health, good, free}); got != nil {
		t.Errorf("%s was blamed", got.name)
	}
	if got := listFigures(r, []*question{health, good, bad, worse, free}); got != worse {
		t.Errorf("%v was blamed", got)
	}
}

// The workers of a server count, other child processes do not.
func TestServerTime(t *testing.T) {
	t.Parallel()
	shell := exec.Command("sh", "-c", "while :; do :; done & "+
		"sh -c 'while :; do :; done' & sleep 3600 & echo started; wait")
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
		_ = shell.Wait()
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	err = poll(t.Context(), pollEvery, "work of the workers", func() (bool, error) {
		return serverTime(shell.Process.Pid) >= 5*clockTick, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if own := processorTime(shell.Process.Pid); own >= 5*clockTick {
		t.Errorf("the shell itself, which waits, took %v", own)
	}
}
