package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ingot/samples/internal/sample"
)

// TestMain is also the process that a test signals: a process named java that
// reports the signal.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "java" {
		os.Exit(m.Run())
	}
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGQUIT)
	fmt.Fprintln(os.Stdout, "ready")
	go func() {
		for range got {
			fmt.Fprintln(os.Stdout, "Full thread dump")
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test closes it
}

// java starts such a process for an instance and returns its output.
func java(t *testing.T, instance string) (id int, lines *bufio.Scanner, end func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "java")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), link)
	cmd.Env = []string{"OTHER=1", sample.InstanceVariable + "=" + instance}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() { in.Close(); _ = cmd.Wait() }
	t.Cleanup(end)
	lines = bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("the process says %q, %v", lines.Text(), lines.Err())
	}
	return cmd.Process.Pid, lines, end
}

func call(d *debugger, method string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	d.handler().ServeHTTP(w, httptest.NewRequest(method, "/threaddump", http.NoBody))
	return w
}

// TestThreadDump signals the Java process of its own instance only.
func TestThreadDump(t *testing.T) {
	t.Parallel()
	mine, others := t.Name()+"-mine", t.Name()+"-others"
	id, lines, _ := java(t, mine)
	_, apart, end := java(t, others)
	d := &debugger{Proc: "/proc", Instance: mine}
	if w := call(d, http.MethodHead); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("HEAD: %d", w.Code)
	}
	w := call(d, http.MethodGet)
	if want := fmt.Sprintf("process %d.", id); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
		t.Fatalf("%d %s, want %q", w.Code, w.Body, want)
	}
	if !lines.Scan() || lines.Text() != "Full thread dump" {
		t.Errorf("the process writes %q", lines.Text())
	}
	end()
	if apart.Scan() {
		t.Errorf("the process of another instance writes %q", apart.Text())
	}
}

func TestThreadDumpFails(t *testing.T) {
	t.Parallel()
	if w := call(&debugger{Proc: "/proc", Instance: t.Name()}, http.MethodGet); w.Code != http.StatusServiceUnavailable ||
		!strings.Contains(w.Body.String(), "no Java process") {
		t.Errorf("without a Java process: %d %s", w.Code, w.Body)
	}
	if w := call(&debugger{Proc: filepath.Join(t.TempDir(), "none")},
		http.MethodGet); w.Code != http.StatusInternalServerError {
		t.Errorf("without processes: %d %s", w.Code, w.Body)
	}
	if w := call(&debugger{}, http.MethodPost); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	// Processes that are exiting, or belong to other users.
	proc := t.TempDir()
	for name, files := range map[string]map[string]string{
		"1": {"comm": "java\n"}, "2": {"comm": "java\n", "environ": ""}, "3": {},
		"self": {"comm": "java\n", "environ": "A=1\x00"},
		"4":    {"comm": "java\n", "environ": "A=1\x00" + sample.InstanceVariable + "=other\x00"},
		"5":    {"comm": "javac\n", "environ": sample.InstanceVariable + "=mine\x00"},
	} {
		if err := os.Mkdir(filepath.Join(proc, name), 0o700); err != nil {
			t.Fatal(err)
		}
		for file, text := range files {
			if err := os.WriteFile(filepath.Join(proc, name, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if found, err := (&debugger{Proc: proc, Instance: "mine"}).find(); err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
}
