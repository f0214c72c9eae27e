package main

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// A child process inherits no file descriptors that the server was given.
func TestDescriptorsAreKept(t *testing.T) {
	t.Parallel()
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_NONBLOCK); err != nil { // without close-on-exec, like inherited ones
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(pipe[0]), "r"), os.NewFile(uintptr(pipe[1]), "w")
	defer r.Close()
	if err := keepDescriptors(); err != nil {
		t.Fatal(err)
	}
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close() // ends the child
		if err := child.Wait(); err != nil {
			t.Error(err)
		}
	}()
	// The reader sees the end of the pipe when no process holds it open; the
	// child is still running.
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || len(text) != 0 {
		t.Errorf("read %q, %v, want the end of the pipe", text, err)
	}
}
