package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/instance/initproto"
)

// program is the real ingot-init, built once.
var program string

// roleVariable makes the test binary a member of an instance.
const roleVariable = "INGOT_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		play(role)
		return
	}
	dir, err := os.MkdirTemp("", "ingot-init")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "ingot-init")
	if err := testkit.Build(dir, "ingot/cmd/ingot-init"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// play runs the test binary as a member of an instance.
func play(role string) {
	name, argument, _ := strings.Cut(role, " ")
	switch name {
	case "serve": // serve a port, with a status that SIGUSR1 toggles to 500
		var bad atomic.Bool
		toggle := make(chan os.Signal, 1)
		signal.Notify(toggle, syscall.SIGUSR1)
		go func() {
			for range toggle {
				bad.Store(!bad.Load())
				fmt.Println("toggled")
			}
		}()
		s := http.Server{Addr: argument, ReadHeaderTimeout: limit,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if bad.Load() {
					w.WriteHeader(http.StatusInternalServerError)
				}
			})}
		fmt.Println(s.ListenAndServe())
	case "listen": // listen on a port until SIGUSR1
		done := make(chan os.Signal, 1)
		signal.Notify(done, syscall.SIGUSR1)
		l, err := net.Listen("tcp", argument)
		if err != nil {
			panic(err)
		}
		<-done
		l.Close()
		select {}
	case "lines": // write that many lines of 100 bytes
		count, err := strconv.Atoi(argument)
		if err != nil {
			panic(err)
		}
		var b []byte
		zeroes := bytes.Repeat([]byte("0"), 99)
		for i := range count {
			digits := strconv.Itoa(i)
			b = append(append(append(b, zeroes[len(digits):]...), digits...), '\n')
			if len(b) > 60000 || i == count-1 {
				if _, err := os.Stdout.Write(b); err != nil {
					panic(err)
				}
				b = b[:0]
			}
		}
	}
}

// limit is the timeout for events that should have happened long before.
const limit = 3 * time.Minute

func freePort(t *testing.T) int {
	t.Helper()
	return testkit.FreePort(t)
}

var environment = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir()}

// shell returns a member that runs a script; the first is the main process.
func shell(name, script string) initproto.Member {
	source := "APP/PROC/WEB"
	if name != "web" {
		source += "/SIDECAR/" + strings.ToUpper(name)
	}
	return initproto.Member{Name: name, Source: source, Args: []string{"sh", "-c", script}, Env: environment,
		Dir: os.TempDir()}
}

func actor(t *testing.T, name, role string) initproto.Member {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := shell(name, "")
	m.Args = []string{self}
	m.Env = append([]string{roleVariable + "=" + role}, environment...)
	return m
}

const forever = "exec sleep 1000"

func spec(members ...initproto.Member) initproto.Spec {
	return initproto.Spec{Instance: "test", Members: members, LogRate: -1, Grace: 30 * time.Second}
}

// instance is a running ingot-init and its records so far.
type instance struct {
	t       *testing.T
	dir     string
	cmd     *exec.Cmd
	r       *initproto.Reader
	records []initproto.Record
	stderr  bytes.Buffer
}

// start runs ingot-init until the end of the test.
func start(t *testing.T, s initproto.Spec, change ...func(*exec.Cmd)) *instance {
	t.Helper()
	i := &instance{t: t, dir: t.TempDir()}
	if err := writeSpec(i.dir, s); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(i.dir, initproto.RecordsDir), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	i.cmd = exec.CommandContext(ctx, program, i.dir)
	i.cmd.Stderr = &i.stderr
	for _, c := range change {
		c(i.cmd)
	}
	if err := i.cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	var err error
	if i.r, err = initproto.OpenReader(filepath.Join(i.dir, initproto.RecordsDir), 0); err != nil {
		t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { i.r.Close() })
	t.Cleanup(func() {
		if i.cmd.ProcessState == nil {
			_ = i.cmd.Process.Kill()
			_ = i.cmd.Wait()
		}
		stop()
		cancel()
		i.r.Close()
		if i.stderr.Len() > 0 {
			t.Errorf("ingot-init complains: %s", i.stderr.String())
		}
	})
	return i
}

func (i *instance) next() (initproto.Record, bool) {
	i.t.Helper()
	rec, err := i.r.Next()
	if errors.Is(err, io.EOF) {
		return rec, false
	}
	if err != nil {
		i.t.Fatalf("%v after:\n%s", err, i.transcript())
	}
	rec.Payload = bytes.Clone(rec.Payload)
	i.records = append(i.records, rec)
	return rec, true
}

// until reads records until one whose text, after kind and member, has the
// prefix.
func (i *instance) until(prefix string) initproto.Record {
	i.t.Helper()
	for {
		rec, ok := i.next()
		if !ok {
			i.t.Fatalf("no %q in:\n%s", prefix, i.transcript())
		}
		if strings.HasPrefix(text(rec), prefix) {
			return rec
		}
	}
}

// untilAll reads records until each of the texts has appeared, in any order.
func (i *instance) untilAll(texts ...string) {
	i.t.Helper()
	for {
		texts = slices.DeleteFunc(texts, func(s string) bool {
			return slices.ContainsFunc(i.records, func(r initproto.Record) bool { return text(r) == s })
		})
		if len(texts) == 0 {
			return
		}
		if _, ok := i.next(); !ok {
			i.t.Fatalf("no %q in:\n%s", texts, i.transcript())
		}
	}
}

// text formats a record: "o0 hello", or "v1 exited status=3 cancelled".
func text(r initproto.Record) string {
	if r.Kind != initproto.Event {
		return fmt.Sprintf("%c%d %s", r.Kind, r.Member, r.Payload)
	}
	b := body(r)
	s := fmt.Sprintf("v%d %s", r.Member, b.Event)
	if b.Event == initproto.EventExited {
		s += fmt.Sprintf(" status=%d", b.Status)
		if b.Signaled {
			s += " signaled"
		}
		if b.Cancelled {
			s += " cancelled"
		}
		if b.Overdue {
			s += " overdue"
		}
	}
	if b.Reason != "" {
		s += " (" + b.Reason + ")"
	}
	return s
}

func (i *instance) signal(s syscall.Signal) {
	i.t.Helper()
	if err := i.cmd.Process.Signal(s); err != nil {
		i.t.Fatal(err)
	}
}

func (i *instance) transcript() string {
	var b strings.Builder
	for _, r := range i.records {
		fmt.Fprintf(&b, "%d %.200s\n", r.Seq, text(r))
	}
	return b.String()
}

// end reads all remaining records and checks what every instance must do at its
// end.
func (i *instance) end() initproto.Exit {
	i.t.Helper()
	for {
		if _, ok := i.next(); !ok {
			break
		}
	}
	_ = i.cmd.Wait() // the status is checked below
	for n, rec := range i.records {
		if rec.Seq != uint64(n+1) {
			i.t.Fatalf("record %d has number %d", n, rec.Seq)
		}
	}
	state, err := readState(i.dir)
	if err != nil {
		i.t.Fatal(err)
	}
	last := i.records[len(i.records)-1]
	if state.Phase != initproto.Ended || state.Exit == nil || state.Seq != last.Seq-1 || state.Ready {
		i.t.Fatalf("the last state is %+v", state)
	}
	if got := i.cmd.ProcessState.ExitCode(); got != state.Exit.Status {
		i.t.Errorf("ingot-init left with %d, the state says %d", got, state.Exit.Status)
	}
	b := body(last)
	if x := (initproto.Exit{Status: b.Status, Description: b.Reason, Stopped: b.Stopped,
		OOM: b.OOM}); b.Event != initproto.EventEnded || x != *state.Exit {
		i.t.Errorf("the last record is %s, the state says %+v", last.Payload, *state.Exit)
	}
	for _, m := range state.Members {
		if !m.Exited {
			i.t.Errorf("member is %+v, want exited", m)
		}
	}
	return *state.Exit
}

// lines returns the texts of all output records of a member and kind.
func (i *instance) lines(kind initproto.Kind, member int) []string {
	var lines []string
	for _, r := range i.records {
		if r.Kind == kind && r.Member == member {
			lines = append(lines, string(r.Payload))
		}
	}
	return lines
}

func writeSpec(dir string, s initproto.Spec) error {
	content, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, initproto.SpecFile), content, 0o600)
}

func readState(dir string) (s initproto.State, err error) {
	content, err := os.ReadFile(filepath.Join(dir, initproto.StateFile))
	if err != nil {
		return s, err
	}
	err = json.Unmarshal(content, &s)
	return s, err
}
