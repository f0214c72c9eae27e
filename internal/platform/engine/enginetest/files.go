package enginetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

var fileCases = []testCase{
	{name: "Files", test: unpacked},
	{name: "FilesAt", test: filesAt},
	{name: "ReadOnly", test: readOnly},
	{name: "SharedFiles", test: sharedFiles},
	{name: "Collect", test: collect},
	{name: "OneOff", test: oneOff},
	{name: "OpenFiles", test: openFiles},
	{name: "Memory", needs: isolated, test: memory},
	{name: "KilledFirst", test: killedFirst},
	{name: "LostForMemory", needs: isolated, test: lostForMemory},
	{name: "WholeForMemory", needs: isolated, test: wholeForMemory},
	{name: "Placement", test: placement},
	{name: "Processes", needs: func(d engine.Description) bool { return d.HardProcesses }, test: processes},
	{name: "Disk", needs: func(d engine.Description) bool { return d.HardDisk }, test: disk},
	{name: "Apart", needs: isolated, test: apart},
}

func unpacked(s *suite, t *testing.T) {
	spec := s.spec(t, sh("web", `
		ls -l app/run app/data | cut -c 1-10
		cat app/data app/config/first app/config/second
		readlink app/link
		app/run && echo "in $HOME"
		echo new >app/data && echo new >other && echo written
		`+waiting))
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(tarOf(file("config/second", 0o644, "second\n"), file("data", 0o600, "later\n"))); err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, z.Close())
	spec.Files = append(spec.Files,
		archiveOf("", tarOf(
			file("app/run", 0o755, "#!/bin/sh\necho runs\n"),
			file("app/data", 0o640, "sooner\n"),
			file("app/config/first", 0o644, "first\n"),
			tarEntry{header: tar.Header{Name: "app/link", Linkname: "data", Typeflag: tar.TypeSymlink}},
		)),
		archiveOf("app", zipped.Bytes()))
	id := s.start(t, spec)
	f := s.follow(t, id, 0)
	for _, want := range []string{"-rw-------", "-rwxr-xr-x", "later", "first", "second", "data", "runs", "in /",
		"written"} {
		f.line(want)
	}
}

// filesAt has files that depend on the instance's address. They belong to its user, who can
// replace them.
func filesAt(s *suite, t *testing.T) {
	spec := s.spec(t, sh("web", `
		test "$(cat credentials/address)" = "{{ip}}" && echo the same address
		ls -l credentials/address | cut -c 1-10
		echo replaced >credentials/new && mv -f credentials/new credentials/address && cat credentials/address
		`+waiting))
	spec.FilesAt = func(ip string) ([]engine.Archive, error) {
		return []engine.Archive{archiveOf("credentials", tarOf(file("address", 0o600, ip+"\n")))}, nil
	}
	f := s.follow(t, s.start(t, spec), 0)
	for _, want := range []string{"the same address", "-rw-------", "replaced"} {
		f.line(want)
	}
	spec = s.spec(t, sh("web", waiting))
	spec.FilesAt = func(string) ([]engine.Archive, error) { return nil, errors.New("no files today") }
	if err := s.Start(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "no files today") {
		t.Errorf("Start without the files: %v", err)
	}
}

func readOnly(s *suite, t *testing.T) {
	if s.o.User == 0 && !s.about.Isolated {
		t.Skip("members may be root")
	}
	for name, key := range map[string]string{"Kept": "enginetest-stack", "Once": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := s.spec(t, sh("web", `cat deep/stack/x
				(echo changed >deep/stack/x) 2>/dev/null || echo refused
				(echo new >deep/stack/y) 2>/dev/null || echo also refused
				(echo new >deep/z) && echo taken
				cat deep/stack/x
				`+waiting))
			a := archiveOf("deep/stack", tarOf(file("x", 0o666, "same\n")))
			a.Key, a.ReadOnly = key, true
			spec.Files = append(spec.Files, a)
			f := s.follow(t, s.start(t, spec), 0)
			for _, want := range []string{"same", "refused", "also refused", "taken", "same"} {
				f.line(want)
			}
		})
	}
}

func sharedFiles(s *suite, t *testing.T) {
	_, f := s.run(t,
		sh("web", `while ! test -e from-side; do sleep 0.02; done; cat from-side; echo reply >from-main; `+waiting),
		sh("side", `echo hello >tmp && mv tmp from-side; while ! test -s from-main; do sleep 0.02; done; cat from-main; `+
			waiting))
	f.line("hello")
	r := f.until("reply", func(r initproto.Record) bool { return string(r.Payload) == "reply" })
	if r.Member != 1 {
		t.Errorf("the line is of member %d", r.Member)
	}
}

func collect(s *suite, t *testing.T) {
	id, f := s.run(t, sh("web", `
		mkdir -p out/deep/er; echo one >out/one; echo two >out/deep/two; : >out/deep/empty
		ln -s one out/link; ln -s /etc/passwd out/host; ln -s /etc out/etc; ln -s / out/deep/er/all
		mkfifo out/pipe
		echo made; `+waiting))
	f.line("made")
	want := map[string]string{
		"one": "one\n", "deep": "/", "deep/two": "two\n", "deep/empty": "", "deep/er": "/", "deep/er/all": "-> /",
		"link": "-> one", "host": "-> /etc/passwd", "etc": "-> /etc",
	}
	for _, path := range []string{"out", "{{home}}/out", "./out/"} {
		same(t, path, s.collect(t, id, path), want)
	}
	same(t, "a file", s.collect(t, id, "out/one"), map[string]string{"one": "one\n"})
	if all := s.collect(t, id, "{{home}}"); all["out/deep/two"] != "two\n" {
		t.Errorf("the home directory has %d entries", len(all))
	}
	for _, path := range []string{"nothing", "..", "../..", "out/../../x", "/etc", "{{home}}/..", "{{home}}x",
		"out/etc/passwd", "out/deep/er/all/etc"} {
		if err := s.Collect(within(t), id, path, io.Discard); err == nil {
			t.Errorf("Collect %s went well", path)
		}
	}
	testkit.Must(t, s.Signal(within(t), id))
	f.end()
	s.awaitGone(t, id)
	same(t, "after its end", s.collect(t, id, "out"), want)
}

func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for name, content := range want {
		if have, ok := got[name]; !ok || have != content {
			t.Errorf("%s: %s is %q (%t), want %q", what, name, have, ok, content)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %s was not expected", what, name)
		}
	}
}

// oneOff is like staging: files in, a command, files out.
func oneOff(s *suite, t *testing.T) {
	spec := s.spec(t, sh("stage",
		`cat in/source; tr a-z A-Z <in/source >droplet; mkdir made; mv droplet made/; echo done`))
	spec.Launch.OneOff = true
	spec.Files = append(spec.Files, archiveOf("in", tarOf(file("source", 0o644, "words\n"))))
	id := s.start(t, spec)
	f := s.follow(t, id, 0)
	f.line("words")
	f.line("done")
	f.end()
	if x := s.awaitGone(t, id).State.Exit; x == nil || x.Status != 0 {
		t.Errorf("exit: %+v", x)
	}
	same(t, "made", s.collect(t, id, "made"), map[string]string{"droplet": "WORDS\n"})
}

func openFiles(s *suite, t *testing.T) {
	spec := s.spec(t, sh("web", `exec "$MEMBER" files 5000`))
	spec.Limits.Files = 100
	f := s.follow(t, s.start(t, spec), 0)
	n, err := strconv.Atoi(f.line("files"))
	if err != nil || n > 100 || n < 80 { // the program itself has some
		t.Errorf("it could open %d files, %v", n, err)
	}
}

func memory(s *suite, t *testing.T) {
	spec := s.spec(t, sh("web", `exec "$MEMBER" hog 300`), sh("side", waiting))
	spec.Limits.Memory = 64 << 20
	id := s.start(t, spec)
	f := s.follow(t, id, 0)
	if e := f.event(initproto.EventExited); !e.OOM || e.Status != 137 {
		t.Errorf("exited: %+v", e)
	}
	f.end()
	if x := s.awaitGone(t, id).State.Exit; x == nil || !x.OOM {
		t.Errorf("exit: %+v", x)
	}
}

// killedFirst: when memory runs out the kernel kills a member before ingot-init, which
// reports how the instance ended.
func killedFirst(s *suite, t *testing.T) {
	// An engine may set the score just after the start, and ingot-init its own.
	_, f := s.run(t, sh("web", `i=0; while [ $i -lt 3000 ]; do
			[ "$(cat /proc/$$/oom_score_adj)" = 1000 ] && [ "$(cat /proc/$PPID/oom_score_adj)" != 1000 ] && break; sleep 0.02; i=$((i+1)); done
		echo score $(cat /proc/self/oom_score_adj) $(cat /proc/$PPID/oom_score_adj)
		`+waiting))
	fields := strings.Fields(f.line("score"))
	if len(fields) != 2 {
		t.Fatalf("%q", fields)
	}
	member, err1 := strconv.Atoi(fields[0])
	first, err2 := strconv.Atoi(fields[1])
	if err := errors.Join(err1, err2); err != nil || member <= first || member != 1000 {
		t.Errorf("a member has %d and ingot-init %d, %v", member, first, err)
	}
}

// lostForMemory: when ingot-init itself is killed, the kernel's count shows whether memory
// was the reason.
func lostForMemory(s *suite, t *testing.T) {
	if s.o.Whole {
		t.Skip("ingot-init ends such an instance before it can be killed")
	}
	spec := s.spec(t, sh("web", `"$MEMBER" hog 300; echo after
		`+waiting))
	spec.Limits.Memory = 64 << 20
	id := s.start(t, spec)
	s.follow(t, id, 0).line("after")
	s.o.KillInit(t, s.dir, s.Engine, id)
	if x := s.awaitGone(t, id).State.Exit; x == nil || !x.OOM || !strings.Contains(x.Description, "out of memory") {
		t.Errorf("exit: %+v", x)
	}
}

// wholeForMemory: when the kernel kills a process of an instance without sidecars because memory ran
// out, the rest of the instance ends too and the reason is reported, whatever its main process makes of it.
func wholeForMemory(s *suite, t *testing.T) {
	if !s.o.Whole {
		t.Skip("control groups of version 1 do not report a kill; only the killed process ends")
	}
	for name, after := range map[string]string{"survives": waiting, "fails": "exit 3"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := s.spec(t, sh("web", `sleep 1000 & "$MEMBER" hog 300; `+after))
			spec.Limits.Memory = 64 << 20
			id := s.start(t, spec)
			// Not the event: while the memory of the killed process is not free yet, the kernel may kill
			// ingot-init too, and then the engine reports the reason.
			s.follow(t, id, 0).end()
			if x := s.awaitGone(t, id).State.Exit; x == nil || !x.OOM || !strings.Contains(x.Description, "out of memory") {
				t.Errorf("exit: %+v", x)
			}
		})
	}
}

// placement: an instance that exceeds the machine is refused before anything is created, in
// Diego's words.
func placement(s *suite, t *testing.T) {
	for reason, limits := range map[string]engine.Limits{
		engine.InsufficientMemory: {Memory: 1 << 50, Disk: 16 << 20},
		engine.InsufficientDisk:   {Memory: 16 << 20, Disk: 1 << 60},
	} {
		spec := s.spec(t, sh("web", waiting))
		spec.Limits = limits
		var refused *engine.PlacementError
		if err := s.Start(t.Context(), spec); !errors.As(err, &refused) || refused.Reason != reason {
			t.Errorf("%+v: %v", limits, err)
		}
		if _, err := s.Get(t.Context(), spec.ID); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("it exists: %v", err)
		}
	}
}

func processes(s *suite, t *testing.T) {
	spec := s.spec(t, sh("web", `exec "$MEMBER" forks 300`))
	spec.Limits.PIDs = 64
	f := s.follow(t, s.start(t, spec), 0)
	n, err := strconv.Atoi(f.line("forked"))
	if err != nil || n < 1 || n >= 64 {
		t.Errorf("it could start %d processes, %v", n, err)
	}
}

func disk(s *suite, t *testing.T) {
	spec := s.spec(t, sh("web", `exec "$MEMBER" fill big 200`))
	spec.Limits.Disk = 64 << 20
	f := s.follow(t, s.start(t, spec), 0)
	f.line("full:")
}

// apart: an instance sees neither the processes and files of another nor its ports.
func apart(s *suite, t *testing.T) {
	spec := s.spec(t, sh("web", `echo secret >secret; ls -d /proc/[0-9]* | wc -l; exec "$MEMBER" serve tcp :8080 first`))
	spec.Ports = []int{8080}
	first := s.start(t, spec)
	f := s.follow(t, first, 0)
	if n, err := strconv.Atoi(strings.TrimSpace(f.line(""))); err != nil || n > 10 {
		t.Errorf("it sees %d processes, %v", n, err)
	}
	f.line("serving")
	at := s.get(t, first).Internal

	_, g := s.run(t, sh("web", `test -e secret || echo no secret
		"$MEMBER" get tcp 127.0.0.1:8080 1 2>/dev/null || echo not mine
		timeout 3 "$MEMBER" get tcp `+at+`:8080 1 2>/dev/null || echo not the other
		touch /usr/x 2>/dev/null || echo not the system
		`+waiting))
	for _, want := range []string{"no secret", "not mine", "not the other", "not the system"} {
		if want != "not the other" || !s.o.OpenNetwork {
			g.line(want)
		}
	}
	if r, err := get(t, s, first, "tcp", "127.0.0.1:8080"); err != nil || r != "first" {
		t.Errorf("from outside: %q, %v", r, err)
	}
}
