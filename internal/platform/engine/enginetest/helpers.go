package enginetest

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// patience limits every wait: much longer than anything takes on a machine that is emulated and busy.
const patience = 5 * time.Minute

var ids atomic.Int64

// newID returns an id that names the test.
func newID(t *testing.T) string {
	t.Helper()
	name := strings.ToLower(t.Name()[strings.LastIndex(t.Name(), "/")+1:])
	return fmt.Sprintf("%.20s-%d", name, ids.Add(1))
}

// sh returns a member that runs a script in the home directory, in which $MEMBER is the
// program of the suite.
func sh(name, script string) initproto.Member {
	return initproto.Member{
		Name: name, Source: "APP/PROC/" + strings.ToUpper(name),
		Args: []string{"/bin/sh", "-c", script},
		Env: []string{
			"PATH=/usr/local/bin:/usr/bin:/bin", "HOME={{home}}", "MEMBER={{home}}/bin/member", "WORD=given",
		},
		Dir: "{{home}}",
	}
}

// spec returns an instance of these members with a process health check.
func (s *suite) spec(t *testing.T, members ...initproto.Member) engine.Spec {
	t.Helper()
	id := newID(t)
	return engine.Spec{
		ID:     id,
		Labels: map[string]string{"test": t.Name()},
		Files:  []engine.Archive{programArchive()},
		Launch: initproto.Spec{
			Instance: id, Members: members, User: s.o.User, Group: s.o.Group,
			Health: initproto.Check{Kind: initproto.CheckProcess},
			Grace:  patience, LogRate: -1,
		},
		Limits: engine.Limits{Memory: 256 << 20, Disk: 256 << 20, CPU: 1024, PIDs: 256, Files: 1024},
	}
}

// Program returns an archive with the suite's program, bin/member, for tests of one engine.
func Program() engine.Archive { return programArchive() }

// programArchive returns an archive with the suite's program in bin/, which instances
// share.
func programArchive() engine.Archive {
	return engine.Archive{
		Key: "enginetest-member", Target: "bin", ReadOnly: true,
		Open: func() (io.ReadCloser, error) {
			b, err := os.ReadFile(filepath.Join(programs, "member"))
			if err != nil {
				return nil, err
			}
			return io.NopCloser(bytes.NewReader(tarOf(file("member", 0o755, string(b))))), nil
		},
	}
}

func file(name string, mode int64, content string) tarEntry {
	return tarEntry{tar.Header{Name: name, Mode: mode, Size: int64(len(content)), Typeflag: tar.TypeReg}, content}
}

type tarEntry struct {
	header  tar.Header
	content string
}

func tarOf(entries ...tarEntry) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		err := w.WriteHeader(&e.header)
		if err == nil {
			_, err = io.WriteString(w, e.content)
		}
		if err != nil {
			panic(err) // memory
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// archiveOf returns an archive with the content.
func archiveOf(target string, content []byte) engine.Archive {
	return engine.Archive{Target: target, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// start starts an instance that is removed at the end of the test.
func (s *suite) start(t *testing.T, spec engine.Spec) string {
	t.Helper()
	t.Cleanup(func() { s.remove(t, spec.ID) })
	if err := s.Start(within(t), spec); err != nil {
		t.Fatalf("Start: %v", err)
	}
	return spec.ID
}

// run starts an instance of these members and follows its records.
func (s *suite) run(t *testing.T, members ...initproto.Member) (string, *follower) {
	t.Helper()
	id := s.start(t, s.spec(t, members...))
	return id, s.follow(t, id, 0)
}

func (s *suite) remove(t *testing.T, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Remove(ctx, id); err != nil {
		t.Errorf("Remove: %v", err)
	}
}

func (s *suite) get(t *testing.T, id string) engine.Instance {
	t.Helper()
	i, err := s.Get(within(t), id)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return i
}

// awaitGone waits until the engine reports that ingot-init does not run, which is shortly
// after its last record.
func (s *suite) awaitGone(t *testing.T, id string) engine.Instance {
	t.Helper()
	var i engine.Instance
	testkit.Eventually(t, "the instance does not run any more", func() bool {
		i = s.get(t, id)
		return !i.Running
	})
	return i
}

// follower reads an instance's records and checks that none is missing.
type follower struct {
	t      *testing.T
	stream engine.Stream
	last   uint64
	seen   []string
	passed []initproto.Record // not looked for yet
}

func (s *suite) follow(t *testing.T, id string, after engine.Position) *follower {
	t.Helper()
	stream, err := s.Records(within(t), id, after)
	if err != nil {
		t.Fatalf("Records: %v", err)
	}
	f := &follower{t: t, stream: stream, last: uint64(after)}
	t.Cleanup(func() { _ = f.stream.Close() })
	return f
}

// next returns the next record, or false at the end.
func (f *follower) next() (initproto.Record, bool) {
	f.t.Helper()
	r, err := f.stream.Next()
	if errors.Is(err, io.EOF) {
		return r, false
	}
	if err != nil {
		f.t.Fatalf("Next: %v, after:\n%s", err, strings.Join(f.seen, "\n"))
	}
	if r.Seq != f.last+1 {
		f.t.Errorf("record %d follows %d", r.Seq, f.last)
	}
	f.last = r.Seq
	r.Payload = bytes.Clone(r.Payload)
	f.seen = append(f.seen, fmt.Sprintf("%c %d %d %s", r.Kind, r.Seq, r.Member, r.Payload))
	return r, true
}

// until reads up to the wanted record, or returns it if it was already read: records of
// members and of ingot-init have no fixed order.
func (f *follower) until(what string, is func(initproto.Record) bool) initproto.Record {
	f.t.Helper()
	for i, r := range f.passed {
		if is(r) {
			f.passed = slices.Delete(f.passed, i, i+1)
			return r
		}
	}
	for {
		r, ok := f.next()
		if !ok {
			f.t.Fatalf("no %s, but:\n%s", what, strings.Join(f.seen, "\n"))
		}
		if is(r) {
			return r
		}
		f.passed = append(f.passed, r)
	}
}

// line waits for a line of output with a prefix, and returns the rest of it.
func (f *follower) line(begin string) string {
	f.t.Helper()
	r := f.until("line "+begin, func(r initproto.Record) bool {
		return r.Kind != initproto.Event && bytes.HasPrefix(r.Payload, []byte(begin))
	})
	return strings.TrimSpace(string(r.Payload[len(begin):]))
}

// event waits for an event.
func (f *follower) event(kind initproto.EventKind) initproto.EventBody {
	f.t.Helper()
	var body initproto.EventBody
	f.until("event "+string(kind), func(r initproto.Record) bool {
		if r.Kind != initproto.Event {
			return false
		}
		body = initproto.EventBody{}
		if err := json.Unmarshal(r.Payload, &body); err != nil {
			f.t.Errorf("event %s: %v", r.Payload, err)
		}
		return body.Event == kind
	})
	return body
}

// end waits for the end of the stream.
func (f *follower) end() {
	f.t.Helper()
	for {
		if _, ok := f.next(); !ok {
			return
		}
	}
}

// count returns how many of the records end with a text.
func (f *follower) count(text string) int {
	n := 0
	for _, line := range f.seen {
		if strings.HasSuffix(line, text) {
			n++
		}
	}
	return n
}

// collect returns the output of Collect, by name: the content of files, the target of links
// after "-> ", "/" for directories.
func (s *suite) collect(t *testing.T, id, path string) map[string]string {
	t.Helper()
	var b bytes.Buffer
	if err := s.Collect(within(t), id, path, &b); err != nil {
		t.Fatalf("Collect %s: %v", path, err)
	}
	found := map[string]string{}
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		testkit.Must(t, err)
		name := strings.TrimSuffix(strings.TrimPrefix(h.Name, "./"), "/")
		if name == "" || name == "." {
			continue // the directory itself
		}
		if !fs.ValidPath(name) {
			t.Errorf("entry %q", h.Name)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			found[name] = "/"
		case tar.TypeSymlink:
			found[name] = "-> " + h.Linkname
		default:
			content, err := io.ReadAll(r)
			testkit.Must(t, err)
			found[name] = string(content)
		}
	}
}
