package sshd_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"ingot/internal/engine"
	"ingot/internal/engine/container"
	"ingot/internal/engine/process"
	"ingot/internal/launch"
	"ingot/internal/sshd"
)

func TestScratch(t *testing.T) {
	for _, kind := range []string{"process", "container"} {
		dir, _ := os.MkdirTemp("", "sc")
		os.Chmod(dir, 0o755)
		defer os.RemoveAll(dir)
		var e engine.Engine
		var err error
		if kind == "process" {
			e, err = process.New(process.Options{Root: dir + "/p", Init: "/tmp/ingot-init-x"})
		} else {
			e, err = container.New(context.Background(), container.Options{Root: dir + "/c", Init: "/tmp/ingot-init-x"})
		}
		if err != nil {
			t.Logf("%s: %v", kind, err)
			continue
		}
		ln := launch.Spec{Instance: theInstance, Members: []launch.Member{{Name: "web", Source: "APP", Args: []string{"/bin/sh", "-c", "while :; do sleep 1; done"},
			Env: []string{"PATH=/usr/bin:/bin", "HOME={{home}}/app", "USER=vcap", "WORD=given"}, Dir: "{{home}}"}}, User: 2000, Group: 2000, Grace: time.Second,
			Health: launch.Check{Kind: launch.CheckProcess}.WithDefaults()}
		if err := e.Start(t.Context(), engine.Spec{ID: theInstance, Launch: ln}); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		w := setup(t, func(c *sshd.Config) { c.Engine = e })
		c := w.client()
		for i := 0; i < 3; i++ {
			began := time.Now()
			out, errs, err := w.run(c, `echo "$HOME $WORD $EXTRA $USER"; pwd; id -u; echo err >&2; which getent bash scp; exit 7`)
			t.Logf("%s: %q %q %v %v", kind, out, errs, err, time.Since(began))
		}
		began := time.Now()
		out, errs, err := w.run(c, `sleep 4 & echo bg; exit 2`)
		t.Logf("%s: %q %q %v %v", kind, out, errs, err, time.Since(began))
		out, errs, err = w.run(c, `ps ax | grep 'sleep 100[0]'; kill -9 $$`)
		t.Logf("%s after: %q %q %v", kind, out, errs, err)
		s := w.session(c)
		if err := s.RequestPty("xterm", 43, 132, ssh.TerminalModes{}); err != nil {
			t.Fatal(err)
		}
		var buf lockedBuffer
		in, _ := s.StdinPipe()
		s.Stdout = &buf
		if err := s.Shell(); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(in, "stty size; echo $TERM\n")
		w.eventually("size", func() bool { return strings.Contains(buf.String(), "43 132") })
		_ = s.WindowChange(50, 100)
		_, _ = s.SendRequest("x", true, nil)
		_, _ = io.WriteString(in, "stty size; exit 4\n")
		t.Logf("%s: %v %q", kind, s.Wait(), buf.String())
		s = w.session(c)
		var o bytes.Buffer
		s.Stdout = &o
		s.Stdin = strings.NewReader(strings.Repeat("x", 5<<20))
		began = time.Now()
		err = s.Run("cat | wc -c")
		t.Logf("%s: %q %v %v", kind, o.String(), err, time.Since(began))
		_, err = c.Dial("tcp", "127.0.0.1:1")
		t.Logf("%s: dial %v", kind, err)
		_, err = c.Dial("tcp", net.JoinHostPort("nosuch.example", "80"))
		t.Logf("%s: dial %v", kind, err)
		s = w.session(c)
		_ = s.Start("sleep 2000")
		began = time.Now()
		_ = s.Close()
		_ = e.Remove(t.Context(), theInstance)
		_, _, err = w.run(c, "true")
		t.Logf("%s: gone: %v %v %v", kind, err, c.Wait(), time.Since(began))
		w.server.Stop()
		_ = e.Close()
	}
}
