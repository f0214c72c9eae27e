package backup_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"ingot/internal/server/backup"
)

// entry is an entry of an archive.
type entry struct {
	*tar.Header
	text []byte
}

// forger knows the public key and can write to the backup storage. Unlike a real forger, it also
// knows the content of backups.
type forger struct {
	*testing.T
	keyed
}

// open returns the entries of an archive.
func (f forger) open(archive []byte) (all []entry) {
	f.Helper()
	plain, err := age.Decrypt(bytes.NewReader(archive), f.trust.Keys...)
	if err != nil {
		f.Fatal(err)
	}
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		text, readErr := io.ReadAll(r)
		if err := errors.Join(err, readErr); err != nil {
			f.Fatal(err)
		}
		all = append(all, entry{h, text})
	}
}

// seal returns an archive for the public key.
func (f forger) seal(all []entry) []byte {
	f.Helper()
	to, err := age.ParseRecipients(strings.NewReader(f.public))
	if err != nil {
		f.Fatal(err)
	}
	var b bytes.Buffer
	sealed, err := age.Encrypt(&b, to...)
	if err != nil {
		f.Fatal(err)
	}
	w := tar.NewWriter(sealed)
	for _, e := range all {
		h := *e.Header
		h.Size = int64(len(e.text))
		if err := w.WriteHeader(&h); err != nil {
			f.Fatal(err)
		}
		if _, err := w.Write(e.text); err != nil {
			f.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), sealed.Close()); err != nil {
		f.Fatal(err)
	}
	return b.Bytes()
}

func at(all []entry, name string) int {
	return slices.IndexFunc(all, func(e entry) bool { return e.Name == name })
}

func (e entry) as(name, text string) entry {
	h := *e.Header
	h.Name = name
	return entry{&h, []byte(text)}
}

// without leaves entries out.
func without(all []entry, names ...string) []entry {
	return slices.DeleteFunc(slices.Clone(all), func(e entry) bool { return slices.Contains(names, e.Name) })
}

// rewrite changes the members of a JSON entry.
func rewrite(t *testing.T, e entry, change func(map[string]any)) entry {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal(e.text, &members); err != nil {
		t.Fatal(err)
	}
	change(members)
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return entry{e.Header, text}
}

// TestForged: a backup that was changed without the signing key is refused, whether unsigned
// backups are accepted or not; unsigned ones are accepted only if the user says so.
func TestForged(t *testing.T) {
	t.Parallel()
	mine, other := newKey(t), newKey(t)
	f := forger{t, mine}
	whole, second := f.open(archive(t, mine.to, mine.by, "id")), f.open(archive(t, mine.to, mine.by, "second"))
	if got := len(f.open(f.seal(whole))); got != len(whole) {
		t.Fatalf("%d entries, want %d", got, len(whole))
	}
	stranger := f.open(archive(t, mine.to, other.by, "id"))
	const unsigned = "the backup is not signed"
	for name, tc := range map[string]struct {
		forge    func(all []entry) []entry
		want     string // "" means that it is accepted
		accepted bool   // with AcceptUnsigned
	}{
		"untouched": {func(all []entry) []entry { return all }, "", true},
		"changed": {func(all []entry) []entry {
			i := at(all, "secrets/key")
			all[i] = all[i].as("secrets/key", "SECRET")
			return all
		}, "an entry was added, removed, renamed or exchanged", false},
		"added": {func(all []entry) []entry {
			return slices.Insert(all, at(all, "secrets/key"), all[at(all, "empty")].as("secrets/added", "x"))
		}, "an entry was added", false},
		"added blob": {func(all []entry) []entry {
			return slices.Insert(all, 1, all[at(all, "empty")].as("blobs/packages/p2", "x"))
		}, "an entry was added", false},
		"added after the manifest": {func(all []entry) []entry { return append(all, all[at(all, "empty")]) },
			`"empty" follows the manifest`, false},
		"added before the header": {func(all []entry) []entry { return slices.Insert(all, 0, all[at(all, "empty")]) },
			"first entry", false},
		"second signature": {func(all []entry) []entry { return append(all, all[len(all)-1]) },
			"follows the manifest", false},
		"removed": {func(all []entry) []entry { return without(all, "secrets/key") },
			"an entry was", false},
		"removed part": {func(all []entry) []entry { return slices.Delete(all, 2, 3) }, "an entry was", false},
		"removed blob": {func(all []entry) []entry { return without(all, "blobs/packages/p1") },
			"an entry was", false},
		"replaced by an older part": {func(all []entry) []entry { all[3], all[2] = all[2], all[3]; return all },
			"an entry was", false},
		"renamed": {func(all []entry) []entry {
			i := at(all, "empty")
			all[i] = all[i].as("other", "")
			return all
		}, "an entry was", false},
		"names exchanged": {func(all []entry) []entry {
			i, j := at(all, "empty"), at(all, "secrets/key")
			all[i], all[j] = all[i].as("secrets/key", ""), all[j].as("empty", "secret")
			return all
		}, "an entry was", false},
		"reordered": {func(all []entry) []entry {
			i, j := at(all, "empty"), at(all, "secrets/key")
			all[i], all[j] = all[j], all[i]
			return all
		}, "an entry was", false},
		"mode": {func(all []entry) []entry {
			i := at(all, "secrets/key")
			all[i] = all[i].as("secrets/key", "secret")
			all[i].Mode = 0o644
			return all
		}, "an entry was", false},
		"no end": {func(all []entry) []entry { return without(all, "manifest.json", "manifest.sig") },
			"unexpected EOF", false},
		"no manifest":   {func(all []entry) []entry { return without(all, "manifest.json") }, "unexpected EOF", false},
		"no signature":  {func(all []entry) []entry { return without(all, "manifest.sig") }, unsigned, true},
		"no signatures": {func(all []entry) []entry { all[len(all)-1].text = []byte("[]"); return all }, unsigned, true},
		"broken signature": {func(all []entry) []entry { all[len(all)-1].text = []byte("{"); return all },
			"manifest.sig", false},
		"changed signature": {func(all []entry) []entry {
			all[len(all)-1].text = bytes.Replace(all[len(all)-1].text, []byte(`"signature":"`), []byte(`"signature":"AAAA`), 1)
			return all
		}, "its signature is not of this manifest", false},
		"changed manifest": {func(all []entry) []entry {
			i := at(all, "manifest.json")
			all[i] = rewrite(t, all[i], func(m map[string]any) { m["id"] = "newer" })
			return all
		}, "its signature is not of this manifest", false},
		"signature of another backup": {func(all []entry) []entry { all[len(all)-1] = second[len(second)-1]; return all },
			"its signature is not of this manifest", false},
		"manifest of another backup": {func(all []entry) []entry {
			return append(all[:len(all)-2],
				second[len(second)-2:]...)
		}, "is of another backup", false},
		"file of another backup": {func(all []entry) []entry {
			all[0] = second[0]
			return all
		}, "is of another backup", false},
		"signed by another": {func([]entry) []entry { return stranger },
			"was not signed with the signing key that belongs to this private key, but by " + other.signer, false},
		"claims to be ours": {func([]entry) []entry {
			forged := slices.Clone(stranger)
			last := &forged[len(forged)-1]
			last.text = bytes.Replace(last.text, []byte(other.signer), []byte(mine.signer), 1)
			return forged
		}, "its signature is not of this manifest", false},
		"made by a stranger": {func([]entry) []entry { return f.open(archive(t, mine.to, nil, "id")) }, unsigned, true},
		"older format": {func(all []entry) []entry {
			all = without(all, "manifest.sig")
			old := func(m map[string]any) { m["format"] = 1; delete(m, "entries_sha256") }
			all[0], all[len(all)-1] = rewrite(t, all[0], old), rewrite(t, all[len(all)-1], old)
			return all
		}, unsigned, true},
		"older format with a signature": {func(all []entry) []entry {
			all[0] = rewrite(t, all[0], func(m map[string]any) { m["format"] = 1 })
			return all
		}, "is of another backup", false},
		"unsigned with an unexpected file": {func(all []entry) []entry {
			all = without(all, "manifest.sig")
			old := func(m map[string]any) { m["format"] = 1; delete(m, "entries_sha256") }
			all[0], all[len(all)-1] = rewrite(t, all[0], old), rewrite(t, all[len(all)-1], old)
			return slices.Insert(all, 1, all[at(all, "empty")].as("engine.json", "{}"))
		}, unsigned, false},
	} {
		forged := f.seal(tc.forge(slices.Clone(whole)))
		for _, accept := range []bool{false, true} {
			trust := mine.trust
			trust.AcceptUnsigned = accept
			_, m, err := read(bytes.NewReader(forged), trust)
			switch {
			case tc.want == "" || accept && tc.accepted:
				if err != nil || (m.Signer != mine.signer) != (tc.want != "") {
					t.Errorf("%s, accepted unsigned %v: %v, want that it is accepted", name, accept, err)
				}
			case accept && tc.want == unsigned:
				if err == nil || !strings.Contains(err.Error(), "which is not in its manifest") {
					t.Errorf("%s, accepted unsigned: %v, want that the file is refused", name, err)
				}
			case err == nil || !strings.Contains(err.Error(), tc.want):
				t.Errorf("%s, accepted unsigned %v: %v, want %q", name, accept, err, tc.want)
			}
		}
	}
	// Another recipient names the signer.
	trust := mine.trust
	trust.Signers = []string{other.signer}
	if _, m, err := read(bytes.NewReader(f.seal(stranger)), trust); err != nil || m.Signer != other.signer {
		t.Errorf("with the other signer trusted: %v, want that it is accepted", err)
	}
}

// TestSigningKeys: a key that was not copied completely, or that belongs to none of the
// recipients, is refused when the backup is made.
func TestSigningKeys(t *testing.T) {
	t.Parallel()
	mine, other := newKey(t), newKey(t)
	private, public, err := mine.trust.Keys.SigningKeys()
	if err != nil || len(private) != 1 || private[0] != mine.private || public[0] != mine.signer {
		t.Errorf("%d keys, %v, want the one of keygen", len(private), err)
	}
	for text, want := range map[string]string{
		"":                                 "there is no signing key",
		"x":                                "is not of the form INGOT-SIGNING-KEY-",
		mine.private[:len(mine.private)-1]: "was not copied completely",
		mine.private + "A":                 "was not copied completely",
		mine.signer:                        "is not of the form",
		other.private:                      "belongs to another key than those of the recipients",
		"# of the server\n" + mine.private + "\n": "",
	} {
		if _, err := backup.ParseSigningKeys(text, mine.to); (want == "") != (err == nil) || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if _, err := backup.ParseSigningKeys(text, mine.to); err != nil && len(text) > 20 &&
			strings.Contains(err.Error(), text[18:]) {
			t.Error("the error shows the key")
		}
	}
	if _, err := backup.ParseSigners(mine.signer + "," + other.signer); err != nil {
		t.Error(err)
	}
	if _, err := backup.ParseSigners("age1x"); err == nil {
		t.Error("a recipient is taken for a signer")
	}
	// Two people can read it, and both see that it is genuine.
	both, err := backup.ParseRecipients(mine.public + "," + other.public)
	if err != nil {
		t.Fatal(err)
	}
	by, err := backup.ParseSigningKeys(mine.private+","+other.private, both)
	if err != nil {
		t.Fatal(err)
	}
	text := archive(t, both, by, "id")
	for _, k := range []keyed{mine, other} {
		if _, m, err := read(bytes.NewReader(text), k.trust); err != nil || m.Signer != k.signer {
			t.Errorf("one of two: %v, want that it is accepted", err)
		}
	}
}

// TestIndexIsNotTrusted: the index of a repository is not signed. An older backup in the place of
// a newer one, or with a newer time, is refused; a broken index of another one is in no way.
func TestIndexIsNotTrusted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o, err := backup.NewFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	made := time.Date(2026, 11, 16, 4, 31, 30, 0, time.UTC)
	m := &backup.Manifest{Header: backup.Header{ID: "b", Created: made}}
	for name, tc := range map[string]struct {
		index backup.Index
		want  string
	}{
		"same":    {backup.Index{ID: "b", Created: made}, ""},
		"renamed": {backup.Index{ID: "c", Created: made}, "there is the backup b of 2026-11-16T04:31:30Z"},
		"newer":   {backup.Index{ID: "b", Created: made.Add(time.Hour)}, "says that it was made at 2026-11-16T05:31:30Z"},
	} {
		if err := tc.index.Check(m); (tc.want == "") != (err == nil) || err != nil &&
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	if err := backup.Commit(t.Context(), o, backup.Index{Format: 1, ID: "b", Created: made}); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "backups", "b.json"), filepath.Join(dir, "backups", "z.json")); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"": "backups/z.json: it is that of another backup", "z": "another backup",
		"../backups/b": "no such backup", "b": ""} {
		if _, err := backup.Find(t.Context(), o, id); (want == "") != (err == nil) || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("find %q: %v, want %q", id, err, want)
		}
	}
}
