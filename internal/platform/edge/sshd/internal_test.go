package sshd

import (
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"ingot/internal/base/testkit"
)

var quietLog = slog.New(slog.DiscardHandler)

func TestHostKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	// Several servers may come at once: one key counts.
	var all sync.WaitGroup
	prints := make([]string, 8)
	for i := range prints {
		all.Go(func() {
			key, err := loadHostKey(path, nil, quietLog)
			if err != nil {
				t.Error(err)
				return
			}
			prints[i] = fingerprint(key.PublicKey())
		})
	}
	all.Wait()
	for _, p := range prints {
		if p != prints[0] || len(p) != 43 || strings.ContainsAny(p, "=:") {
			t.Errorf("fingerprint %q", p)
		}
	}
	key, err := loadHostKey(path, nil, quietLog)
	if err != nil || key.PublicKey().Type() != ssh.KeyAlgoED25519 {
		t.Fatalf("host key is %v, %v, want one of type %s", key, err, ssh.KeyAlgoED25519)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("files left over: %v %v", entries, err)
	}
	mode := func() fs.FileMode {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	if mode() != 0o600 {
		t.Errorf("mode %v", mode())
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := loadHostKey(path, nil, quietLog); err != nil || mode() != 0o600 {
		t.Errorf("mode %v, %v", mode(), err)
	}
	// What cannot be read is left alone.
	if err := os.WriteFile(path, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadHostKey(path, nil, quietLog); err == nil {
		t.Error("a broken key was taken")
	}
	if b, err := os.ReadFile(path); string(b) != "broken" {
		t.Errorf("the file is now %q, %v", b, err)
	}
	if _, err := loadHostKey(t.TempDir(), nil, quietLog); err == nil {
		t.Error("a folder was taken")
	}
}

// TestSharedHostKey: servers have the key of the first, and a file of their own comes
// first.
func TestSharedHostKey(t *testing.T) {
	t.Parallel()
	var stored []byte
	share := func(create func() ([]byte, error)) (_ []byte, err error) {
		if stored == nil {
			stored, err = create()
		}
		return stored, err
	}
	load := func(path string) string {
		t.Helper()
		key, err := loadHostKey(path, share, quietLog)
		if err != nil {
			t.Fatal(err)
		}
		return fingerprint(key.PublicKey())
	}
	own := filepath.Join(t.TempDir(), "key")
	if err := createKey(own); err != nil {
		t.Fatal(err)
	}
	first, empty := load(own), filepath.Join(t.TempDir(), "key")
	if got := load(empty); got != first {
		t.Errorf("a server without a file has the key %s, want %s: that of the first", got, first)
	}
	if _, err := os.Stat(empty); err == nil {
		t.Error("a file with the shared key was written, want none")
	}
	other := filepath.Join(t.TempDir(), "key")
	if err := createKey(other); err != nil {
		t.Fatal(err)
	}
	if got := load(other); got == first {
		t.Error("a server with a file has the shared key, want its own")
	}
}

func FuzzParseUser(f *testing.F) {
	for _, name := range []string{"cf:a-b_c/0", "cf:a/007", "cf:a/1/2", "cf:/1", "cf:a/", "cf:a b/1", "cf:ä/1", "root", "",
		"cf:a/9999999"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		guid, index, ok := parseUser(name)
		if !ok {
			return
		}
		rest, prefixed := strings.CutPrefix(name, "cf:"+guid+"/")
		if n, err := strconv.Atoi(rest); !prefixed || err != nil || n != index || index < 0 || guid == "" ||
			strings.ContainsAny(guid, "/ {\x00") {
			t.Errorf("%q is %q, %d", name, guid, index)
		}
	})
}

func FuzzPieces(f *testing.F) {
	for _, text := range []string{"", "{", "{{", "{{{{", "a{{home}}b", "{{port:1}}{{"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, command string) {
		all := pieces(command)
		if strings.Join(all, "") != command {
			t.Errorf("%q became %q", command, all)
		}
		for _, piece := range all {
			if strings.Contains(piece, "{{") {
				t.Errorf("%q holds a word", piece)
			}
		}
	})
}

// TestGuardIsBounded sees that made-up names cannot fill the memory, nor wash
// away what is known of others.
func TestGuardIsBounded(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Unix(1000, 0))
	g := newGuessLimit(2, time.Minute, clock)
	for g.take("victim") {
	}
	for i := range 3 * maxBuckets {
		g.take(strconv.Itoa(i))
	}
	if n := len(g.buckets); n > maxBuckets+1 {
		t.Errorf("%d buckets", n)
	}
	if g.take("victim") || g.take("new user") {
		t.Error("there are tries left")
	}
	clock.Advance(time.Hour)
	if !g.take("new user") || !g.take("victim") {
		t.Error("there are no tries after an hour")
	}
	if n := len(g.buckets); n > 2 {
		t.Errorf("%d buckets are remembered", n)
	}
}

func TestAddressKey(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"192.0.2.7:1234": "192.0.2.7", "[::ffff:192.0.2.7]:5": "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:22": "2001:db8:1:2::/64", "[fe80::1%eth0]:22": "fe80::/64",
	} {
		addr, err := net.ResolveTCPAddr("tcp", in)
		if err != nil {
			t.Fatal(err)
		}
		if got := addressKey(addr); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	if got := addressKey(&net.UnixAddr{Name: "x", Net: "unix"}); got != "unix" {
		t.Errorf("key of a unix address is %q, want unix", got)
	}
}
