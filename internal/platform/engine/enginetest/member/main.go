// Command member is what the instances of the conformance suite run: small deeds
// that a shell cannot do on every machine.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// The main goroutine stays in the first thread.
func init() { runtime.LockOSThread() }

func main() {
	deeds := map[string]func(args []string) error{
		"serve":    serve,
		"get":      get,
		"count":    count,
		"hog":      hog,
		"forks":    forks,
		"fill":     fill,
		"files":    files,
		"detach":   detach,
		"headless": headless,
		"attack":   attack,
		"wait":     func([]string) error { wait(); return nil },
	}
	if len(os.Args) < 2 || deeds[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: member DEED ARGUMENTS…")
		os.Exit(2)
	}
	if err := deeds[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "member:", err)
		os.Exit(1)
	}
}

// say prints a line.
func say(args ...any) { fmt.Fprintln(os.Stdout, args...) }

func wait() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	<-c
}

// serve answers HTTP on each network and address (tcp 127.0.0.1:80, unix x.sock)
// with the last argument, and prints "serving" when all listen.
func serve(args []string) error {
	text := args[len(args)-1]
	for i := 0; i+1 < len(args)-1; i += 2 {
		l, err := net.Listen(args[i], args[i+1])
		if err != nil {
			return err
		}
		server := &http.Server{
			ReadHeaderTimeout: time.Minute,
			Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) }),
		}
		go func() { _ = server.Serve(l) }()
	}
	say("serving")
	wait()
	return nil
}

// get prints the response of a server, trying until it is up.
func get(args []string) error {
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, args[0], args[1])
		},
	}}
	tries := 400
	if len(args) > 2 {
		tries = number(args[2])
	}
	for {
		resp, err := client.Get("http://member/")
		if err == nil {
			_, err = io.Copy(os.Stdout, resp.Body)
			return errors.Join(err, resp.Body.Close())
		}
		if tries--; tries <= 0 {
			return err
		}
		time.Sleep(25 * time.Millisecond)
	}
}

// count prints numbered lines for ever, or up to a number.
func count(args []string) error {
	interval, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	last := -1
	if len(args) > 1 {
		last = number(args[1])
	}
	for n := 1; n != last+1; n++ {
		say("line", n)
		time.Sleep(interval)
	}
	return nil
}

// hog allocates so many MiB of memory.
func hog(args []string) error {
	var kept [][]byte
	for range number(args[0]) {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 512 {
			b[i] = byte(i)
		}
		kept = append(kept, b)
	}
	say("has", len(kept))
	wait()
	return nil
}

// forks starts processes until it fails, or the given number, and prints how many it
// started.
func forks(args []string) error {
	var all []*exec.Cmd
	for range number(args[0]) {
		c := exec.Command("/proc/self/exe", "wait")
		if c.Start() != nil {
			break
		}
		all = append(all, c)
	}
	say("forked", len(all))
	for _, c := range all {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	wait()
	return nil
}

// fill writes a file of so many MiB and prints the result.
func fill(args []string) error {
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(i)
	}
	for range number(args[1]) {
		if _, err := f.Write(b); err != nil {
			say("full:", errors.Unwrap(err))
			wait()
			return nil
		}
	}
	say("filled")
	wait()
	return nil
}

// files prints how many files it can open, up to a number.
func files(args []string) error {
	n := 3
	open := func() bool {
		_, err := os.Open("/dev/null")
		return err == nil
	}
	for n < number(args[0]) && open() {
		n++
	}
	say("files", n)
	wait()
	return nil
}

// detach starts a detached process, prints its pid, and exits. The process waits, or ends its
// first thread.
func detach(args []string) error {
	c := exec.Command("/proc/self/exe", append(args, "wait")[0])
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	if len(args) > 0 {
		if _, err := out.Read(make([]byte, 1)); err != nil {
			return err
		}
	}
	say("detached", c.Process.Pid)
	return c.Process.Release()
}

// headless ends the first thread of the process, prints a line when it has ended, and goes on
// whatever it is told. The process table shows it as one that has ended.
func headless([]string) error {
	signal.Ignore(syscall.SIGTERM)
	go func() {
		for {
			b, err := os.ReadFile("/proc/self/stat")
			if err == nil && bytes.Contains(b, []byte(") Z ")) {
				break
			}
			time.Sleep(time.Millisecond)
		}
		say("headless")
	}()
	_, _, errno := syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
	return errno
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, "member:", err)
		os.Exit(2)
	}
	return n
}
