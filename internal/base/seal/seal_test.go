package seal_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ingot/internal/base/seal"
	"ingot/internal/base/testkit"
)

func ring(t testing.TB, keys ...string) *seal.Keyring {
	t.Helper()
	k, err := seal.Parse(strings.Join(keys, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSealOpen(t *testing.T) {
	t.Parallel()
	k := ring(t, seal.NewKey())
	for _, plain := range [][]byte{{}, nil, []byte("hunter2"), {0, 1, 0}, bytes.Repeat([]byte("x"), 1<<20)} {
		sealed := k.Seal(plain, "users.secret\x00u1")
		if !strings.HasPrefix(sealed, "s1."+k.Primary()+".") {
			t.Fatalf("unexpected form %.30q", sealed)
		}
		got, err := k.Open(sealed, "users.secret\x00u1")
		if err != nil || !bytes.Equal(got, plain) || got == nil {
			t.Fatalf("Open = %d bytes (nil %v), %v; want %d bytes", len(got), got == nil, err, len(plain))
		}
	}
	if k.Seal([]byte("a"), "") == k.Seal([]byte("a"), "") {
		t.Error("two seals of one text are equal: the nonce is not random")
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	k, other := ring(t, seal.NewKey()), ring(t, seal.NewKey())
	good := k.Seal([]byte("hunter2"), "t.c\x001")
	id := k.Primary()
	last := good[len(good)-1]
	flipped := byte('A')
	if last == 'A' {
		flipped = 'Q'
	}
	tests := []struct {
		name, sealed, aad string
		want              error
	}{
		{"wrong row", good, "t.c\x002", seal.ErrTampered},
		{"wrong column", good, "t.d\x001", seal.ErrTampered},
		{"cut short", good[:len("s1.01234567.")+40], "t.c\x001", seal.ErrTampered},
		{"no body", "s1." + id + ".", "t.c\x001", seal.ErrTampered},
		{"unknown key", other.Seal([]byte("x"), "t.c\x001"), "t.c\x001", seal.ErrUnknownKey},
		{"empty", "", "", seal.ErrFormat},
		{"plain text", "hunter2", "", seal.ErrFormat},
		{"other version", "s2" + good[2:], "t.c\x001", seal.ErrFormat},
		{"not base64", "s1." + id + ".***", "", seal.ErrFormat},
		{"line break inside", good + "\n", "t.c\x001", seal.ErrFormat},
		{"odd key id", "s1.ABCDEFGH.AAAA", "", seal.ErrFormat},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			plain, err := k.Open(tt.sealed, tt.aad)
			if !errors.Is(err, tt.want) || plain != nil {
				t.Errorf("Open = %q, %v; want %v", plain, err, tt.want)
			}
		})
	}
	t.Run("every byte counts", func(t *testing.T) {
		t.Parallel()
		for i := range good {
			changed := []byte(good)
			if changed[i] == flipped {
				changed[i] = 'B'
			} else {
				changed[i] = flipped
			}
			if _, err := k.Open(string(changed), "t.c\x001"); err == nil {
				t.Errorf("byte %d changed from %q to %q and the value still opens", i, good[i], changed[i])
			}
		}
	})
	t.Run("unknown key is named and the setting too", func(t *testing.T) {
		t.Parallel()
		_, err := k.Open(other.Seal([]byte("x"), ""), "")
		for _, want := range []string{other.Primary(), "INGOT_ENCRYPTION_KEY"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("message %q does not name %s", err, want)
			}
		}
	})
}

func TestRotationInMemory(t *testing.T) {
	t.Parallel()
	first, second := seal.NewKey(), seal.NewKey()
	before, after := ring(t, first), ring(t, second, first)
	old := before.Seal([]byte("a"), "x")
	if got, err := after.Open(old, "x"); err != nil || string(got) != "a" {
		t.Errorf("old value after rotation: %q, %v", got, err)
	}
	if after.IsCurrent(old) || !before.IsCurrent(old) || !after.IsCurrent(after.Seal(nil, "")) || after.IsCurrent("junk") {
		t.Error("IsCurrent is wrong")
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	raw := []byte("\xfb\xff0123456789abcdefghijklmnopqrst")
	spelled := map[string]string{
		"std":         base64.StdEncoding.EncodeToString(raw),
		"raw std":     base64.RawStdEncoding.EncodeToString(raw),
		"url":         base64.URLEncoding.EncodeToString(raw),
		"raw url":     base64.RawURLEncoding.EncodeToString(raw),
		"hex":         hex.EncodeToString(raw),
		"upper hex":   strings.ToUpper(hex.EncodeToString(raw)),
		"comments":    "# a, b\n\n  " + hex.EncodeToString(raw) + " ,\r\n # c\n",
		"no new line": "#x\n" + hex.EncodeToString(raw),
	}
	want := ring(t, hex.EncodeToString(raw)).Primary()
	for name, text := range spelled {
		k, err := seal.Parse(text)
		if err != nil || k.Primary() != want {
			t.Errorf("%s: keys are %v, %v, want primary %v", name, k, err, want)
		}
	}
	two := ring(t, seal.NewKey()+","+seal.NewKey())
	if len(two.IDs()) != 2 {
		t.Errorf("IDs = %v, want two", two.IDs())
	}
	good := seal.NewKey()
	bad := map[string]string{
		"":                       "no encryption key",
		"# only a comment":       "no encryption key",
		"Zm9v":                   "3 bytes",
		"sekrit!sekrit!":         "neither base64 nor hexadecimal",
		good + "\n" + good:       "given twice",
		good + ",sekrit!":        "line 1, entry 2",
		strings.Repeat("00", 32): "one byte repeated",
	}
	for text, part := range bad {
		_, err := seal.Parse(text)
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("Parse(%.10q…) = %v, want an error with %q", text, err, part)
			continue
		}
		for _, secret := range []string{"sekrit", good, "Zm9v"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("error shows key material: %v", err)
			}
		}
	}
}

func TestKeyringPrintsNoSecrets(t *testing.T) {
	t.Parallel()
	k := ring(t, seal.NewKey())
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb, k); got != "keyring("+k.Primary()+")" {
			t.Errorf("%s prints %q", verb, got)
		}
	}
}

func TestLoadOrCreate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	k, created, err := seal.LoadOrCreate(path, "")
	if err != nil || !created {
		t.Fatalf("first: created %v, %v", created, err)
	}
	testkit.CheckMode(t, path, 0o600)
	again, created, err := seal.LoadOrCreate(path, "")
	if err != nil || created || again.Primary() != k.Primary() {
		t.Fatalf("second: created %v, %v, same %v", created, err, again.Primary() == k.Primary())
	}
	env, created, err := seal.LoadOrCreate(path, seal.NewKey())
	if err != nil || created || env.Primary() == k.Primary() {
		t.Errorf("the environment does not win: %v", err)
	}
	if _, _, err := seal.LoadOrCreate(path, "sekrit"); err == nil ||
		!strings.Contains(err.Error(), "INGOT_ENCRYPTION_KEY") || strings.Contains(err.Error(), "sekrit") {
		t.Errorf("bad environment: %v", err)
	}

	if err := seal.Rotate(path); err != nil {
		t.Fatal(err)
	}
	rotated, _, err := seal.LoadOrCreate(path, "")
	if err != nil || len(rotated.IDs()) != 2 || rotated.IDs()[1] != k.Primary() {
		t.Fatalf("after Rotate: %v, %v", rotated, err)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	if len(left) != 0 {
		t.Errorf("temporary files left: %v", left)
	}

	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"load": second(seal.LoadOrCreate(path, "")), "rotate": seal.Rotate(path)} {
		if err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("%s of a readable file: %v, want advice", name, err)
		}
	}
}

func TestLoadOrCreateFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, _, err := seal.LoadOrCreate(filepath.Join(dir, "no", "such"), ""); err == nil {
		t.Error("created a key below a missing directory")
	}
	if _, _, err := seal.LoadOrCreate(dir, ""); err == nil {
		t.Error("read a directory as a key file")
	}
	if err := seal.Rotate(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("rotate a missing file: %v", err)
	}
}

func TestLoadOrCreateAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	ids := make([]string, 16)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			k, _, err := seal.LoadOrCreate(path, "")
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = k.Primary()
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("processes disagree on the key: %v", ids)
		}
	}
}

func second(_ *seal.Keyring, _ bool, err error) error { return err }

func FuzzOpen(f *testing.F) {
	k := ring(f, "8/H0QTDGrZ9Qbxb9i1Yf2ZUBjWDnx4b1m0R1m3JfK1o=")
	good := k.Seal([]byte("secret"), "a")
	f.Add(good, "a")
	f.Add(good, "b")
	f.Add("s1.."+good, "")
	f.Add("s1."+k.Primary()+".", "")
	f.Fuzz(func(t *testing.T, sealed, aad string) {
		plain, err := k.Open(sealed, aad)
		// Workers draw other nonces than the seed values had, so what opens is
		// judged by its content, not by its text.
		if err == nil && (string(plain) != "secret" || aad != "a") {
			t.Fatalf("forged: %q with %q opens as %q", sealed, aad, plain)
		}
		if err != nil && plain != nil {
			t.Fatal("plain text beside an error")
		}
	})
}
