package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// unpacked returns the files of a bundle without its folder.
func unpacked(t *testing.T, bundle io.Reader, root string) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bundle)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil || h.Mode != 0o600 {
			t.Fatalf("%s: mode %o, %v", h.Name, h.Mode, err)
		}
		all[strings.TrimPrefix(h.Name, root+"/")] = string(text)
	}
}

// TestBundle: parts that fail, hang, panic or are too long do not keep the others out, and the
// index says what is missing and why.
func TestBundle(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	give := func(text string, err error) func(context.Context) ([]byte, error) {
		return func(context.Context) ([]byte, error) { return []byte(text), err }
	}
	parts := []Part{
		{Name: "good.txt", Collect: give("password=hunter2 of x\n", nil)},
		{Name: "partial.txt", Collect: give("the beginning", errors.New("token=abcdef was refused"))},
		{Name: "failed.txt", Collect: give("", errors.New("connection\nrefused"))},
		{Name: "empty.txt", Collect: give("", nil)},
		{Name: "hangs.txt", Timeout: time.Millisecond, Collect: func(context.Context) ([]byte, error) {
			<-hang
			return []byte("too late"), nil
		}},
		{Name: "panics.txt", Collect: func(context.Context) ([]byte, error) { panic("broken") }},
		{Name: "long.log", Max: 20, Tail: true, Collect: give("first line\nsecond line\nthird line\n", nil)},
		{Name: "head.txt", Max: 5, Collect: give("0123456789", nil)},
		{Name: "heap.pprof", Binary: true, Collect: give("\x1f\x8bpassword=binary", nil)},
	}
	var b bytes.Buffer
	outcomes, err := Write(t.Context(), &b, "root", "About.", parts, NewScrubber())
	if err != nil || len(outcomes) != len(parts) {
		t.Fatalf("%d outcomes, %v", len(outcomes), err)
	}
	got := unpacked(t, &b, "root")
	for name, want := range map[string]string{
		"good.txt": "password=[redacted] of x\n", "partial.txt": "the beginning", "long.log": "third line\n",
		"head.txt": "01234", "heap.pprof": "\x1f\x8bpassword=binary",
	} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
	for _, name := range []string{"failed.txt", "empty.txt", "hangs.txt", "panics.txt"} {
		if text, found := got[name]; found {
			t.Errorf("%s is there: %q", name, text)
		}
	}
	for _, want := range []string{"About.", "connection; refused", "not finished after 1ms", "broken",
		"cut: it has 34 bytes",
		"token=[redacted] was refused", "empty.txt                  MISSING        empty"} {
		if !strings.Contains(got["index.txt"], want) {
			t.Errorf("the index has no %q:\n%s", want, got["index.txt"])
		}
	}
}

func TestUnitOf(t *testing.T) {
	t.Parallel()
	for groups, want := range map[string]string{
		"0::/system.slice/ingot.service\n":                                                   "ingot.service",
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/ingot.service\n":         "ingot.service",
		"0::/user.slice/user-1000.slice/session-2.scope\n":                                   "",
		"4:memory:/system.slice/ingot.service\n1:name=systemd:/system.slice/ingot.service\n": "ingot.service",
		"": "",
	} {
		if got := unitOf(groups); got != want {
			t.Errorf("%q: got %q, want %q", groups, got, want)
		}
	}
}
