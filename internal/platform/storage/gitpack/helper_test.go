package gitpack_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // git's objects
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/platform/storage/gitpack"
)

// The types of objects in a pack.
const (
	commitType = 1
	treeType   = 2
	blobType   = 3
	ofsType    = 6
	refType    = 7
)

// packer writes packs, also such that git would not write.
type packer struct {
	entries [][]byte
	size    int
	at      map[gitpack.Hash]int
}

func head(kind, size int) []byte {
	b := byte(kind<<4 | size&15)
	size >>= 4
	var out []byte
	for ; size > 0; size >>= 7 {
		out = append(out, b|0x80)
		b = byte(size & 0x7f)
	}
	return append(out, b)
}

func deflated(content []byte) []byte {
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	_, _ = z.Write(content)
	_ = z.Close()
	return out.Bytes()
}

// raw adds an entry and returns its position.
func (p *packer) raw(entry []byte) int {
	at := 12 + p.size
	p.entries, p.size = append(p.entries, entry), p.size+len(entry)
	return at
}

func hashOf(kind int, content string) gitpack.Hash {
	name := map[int]string{commitType: "commit", treeType: "tree", blobType: "blob"}[kind]
	return gitpack.Hash(sha1.Sum(fmt.Appendf(nil, "%s %d\x00%s", name, len(content), content))) //nolint:gosec // as above
}

func (p *packer) add(kind int, content string) gitpack.Hash {
	h := hashOf(kind, content)
	at := p.raw(append(head(kind, len(content)), deflated([]byte(content))...))
	if p.at == nil {
		p.at = map[gitpack.Hash]int{}
	}
	p.at[h] = at
	return h
}

// tree adds a tree of "mode name" and the hash of each.
func (p *packer) tree(entries ...any) gitpack.Hash {
	var text strings.Builder
	for i := 0; i < len(entries); i += 2 {
		h := entries[i+1].(gitpack.Hash)
		text.WriteString(entries[i].(string) + "\x00" + string(h[:]))
	}
	return p.add(treeType, text.String())
}

func (p *packer) commit(tree gitpack.Hash, parents ...gitpack.Hash) gitpack.Hash {
	text := "tree " + tree.String() + "\n"
	for _, parent := range parents {
		text += "parent " + parent.String() + "\n"
	}
	const by = "A <a@b> 1700000000 +0000\n"
	return p.add(commitType, text+"author "+by+"committer "+by+"\nsubject\n\nmore\n")
}

// pack returns the pack, with a correct checksum.
func (p *packer) pack() []byte { return p.claiming(len(p.entries)) }

func (p *packer) claiming(count int) []byte {
	out := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(count))
	for _, e := range p.entries {
		out = append(out, e...)
	}
	sum := sha1.Sum(out) //nolint:gosec // as above
	return append(out, sum[:]...)
}

func sumOf(parts ...[]byte) []byte {
	sum := sha1.Sum(bytes.Join(parts, nil)) //nolint:gosec // as above
	return sum[:]
}

// repository is a folder with a git repository.
type repository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{t, t.TempDir()}
	r.git("init", "-q", "-b", "main")
	return r
}

// git runs git, without the configuration of the user.
func (r *repository) git(args ...string) string { return strings.TrimSpace(r.gitWith("", args...)) }

func (r *repository) gitWith(input string, args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = r.dir, strings.NewReader(input)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=A",
		"GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@b")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("git %q: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

func (r *repository) write(name, content string) {
	r.t.Helper()
	full := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// commit commits everything and returns the hash.
func (r *repository) commit() gitpack.Hash {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "change", "--allow-empty")
	return r.head()
}

func (r *repository) head() gitpack.Hash {
	h, ok := gitpack.ParseHash(r.git("rev-parse", "HEAD"))
	if !ok {
		r.t.Fatal("HEAD is not a hash")
	}
	return h
}

// pack returns what git sends for revisions, such as "HEAD" and "^HEAD~1".
func (r *repository) pack(revisions ...string) []byte {
	return []byte(r.gitWith(strings.Join(revisions, "\n")+"\n", "pack-objects", "--revs", "--stdout", "--thin",
		"--delta-base-offset", "-q"))
}

func objects(t *testing.T, l gitpack.Limits, packs ...[]byte) (*gitpack.Objects, error) {
	t.Helper()
	dir := t.TempDir()
	o, err := gitpack.New(dir, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		o.Close()
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in the folder: %v, %v", left, err)
		}
	})
	for _, p := range packs {
		if err := o.Read(bytes.NewReader(p)); err != nil {
			return o, err
		}
	}
	return o, nil
}
