package gitpack_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/gitpack"
)

// packFile names the pack that TestMemoryReader reads in its own process.
const packFile = "INGOT_TEST_PACK"

// plainly is content as zlib without compression, which is quick to make.
func plainly(content []byte) []byte {
	out, sum := []byte{0x78, 0x01}, adler32.Checksum(content)
	for first := true; first || len(content) > 0; first = false {
		n := min(len(content), 0xffff)
		last := byte(0)
		if n == len(content) {
			last = 1
		}
		out = append(out, last)
		out = binary.LittleEndian.AppendUint16(out, uint16(n))
		out = binary.LittleEndian.AppendUint16(out, ^uint16(n))
		out, content = append(out, content[:n]...), content[n:]
	}
	return binary.BigEndian.AppendUint32(out, sum)
}

// plain adds an object without compressing it.
func (p *packer) plain(kind int, content string) gitpack.Hash {
	p.raw(append(head(kind, len(content)), plainly([]byte(content))...))
	return hashOf(kind, content)
}

// difference adds a difference from an object.
func (p *packer) difference(from gitpack.Hash, d []byte) {
	p.raw(append(append(head(refType, len(d)), from[:]...), plainly(d)...))
}

func treeEntry(mode, name string, h gitpack.Hash) string {
	return mode + " " + name + "\x00" + string(h[:])
}

// manyFiles has as many files as a commit may have, in folders of a thousand.
func manyFiles(p *packer) gitpack.Hash {
	const folders, each, size = 99, 1000, 512
	var top strings.Builder
	filler := strings.Repeat("x", size)
	for i := range folders {
		var text strings.Builder
		for j := range each {
			name := fmt.Sprintf("%03d-%03d", i, j)
			text.WriteString(treeEntry("100644", name, p.plain(blobType, name+filler)))
		}
		top.WriteString(treeEntry("40000", fmt.Sprintf("%03d", i), p.plain(treeType, text.String())))
	}
	return p.plain(treeType, top.String())
}

// largeFiles has files of 64 MB in a few bytes, one of them as a difference.
func largeFiles(p *packer) gitpack.Hash {
	const size = 64 << 20
	text := strings.Repeat("\x00", size)
	base := p.add(blobType, text)
	var d []byte
	for range size >> 20 {
		d = append(d, 0xc0, 0x10) // 1 MiB from the start
	}
	p.difference(base, delta(size, size+1, append(d, 1, 'x')...))
	return p.tree("100644 a", base, "100644 b", hashOf(blobType, text+"x"))
}

// repeatedEntries has trees in each other, each of which names one file very often before the next tree.
func repeatedEntries(p *packer) gitpack.Hash {
	h := p.tree()
	file := treeEntry("100644", "f", p.add(blobType, "x"))
	for range 8 {
		h = p.plain(treeType, strings.Repeat(file, 400_000)+treeEntry("40000", "d", h))
	}
	return h
}

// longPaths has many files with long paths.
func longPaths(p *packer) gitpack.Hash {
	var text strings.Builder
	file := p.add(blobType, "x")
	for i := range 90_000 {
		text.WriteString(treeEntry("100644", fmt.Sprintf("%05d", i), file))
	}
	h := p.add(treeType, text.String())
	for range 15 {
		h = p.add(treeType, treeEntry("40000", strings.Repeat("d", 255), h))
	}
	return h
}

// TestMemory reads packs in a process of their own: what it takes depends on the number of objects, not on what
// they have.
func TestMemory(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	for _, c := range []struct {
		name string
		make func(*packer) gitpack.Hash
		want string
		most int // MB
	}{
		{"many files", manyFiles, "99099 files", 160},
		{"large files", largeFiles, "2 files", 60},
		{"repeated entries", repeatedEntries, "twice", 100},
		{"long paths", longPaths, "more than 32 MB", 160},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := &packer{}
			commit := p.commit(c.make(p))
			name := filepath.Join(t.TempDir(), "pack")
			if err := os.WriteFile(name, p.pack(), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemoryReader$", "-test.v")
			cmd.Env = append(os.Environ(), packFile+"="+name+" "+commit.String(),
				"GOGC=100") // as in a server; tests may run with more
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			got, took := "", 0
			for line := range strings.Lines(string(out)) {
				if _, text, ok := strings.Cut(line, "result: "); ok {
					got, text, _ = strings.Cut(text, ", memory: ")
					_, _ = fmt.Sscanf(text, "%d kB", &took)
				}
			}
			t.Logf("%s: %d MB for a pack of %d objects, %d kB", got, took>>10, len(p.entries), p.size>>10)
			if !strings.Contains(got, c.want) || took == 0 || took>>10 > c.most {
				t.Errorf("%q with %d MB, want %q with at most %d MB\n%s", got, took>>10, c.want, c.most, out)
			}
		})
	}
}

// TestMemoryReader is the process of TestMemory: it does what a push does, and prints the memory it took.
func TestMemoryReader(t *testing.T) {
	t.Parallel()
	name, text, found := strings.Cut(os.Getenv(packFile), " ")
	if !found {
		t.Skip("part of TestMemory")
	}
	commit, _ := gitpack.ParseHash(text)
	in, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	o, err := gitpack.New(t.TempDir(), gitpack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	result := deploy(o, bufio.NewReader(in), commit)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, peak, _ := bytes.Cut(status, []byte("VmHWM:"))
	peak, _, _ = bytes.Cut(peak, []byte("\n"))
	t.Logf("result: %s, memory: %s", result, bytes.TrimSpace(peak))
}

// deploy does what a push does, and says how it ends.
func deploy(o *gitpack.Objects, in io.Reader, commit gitpack.Hash) string {
	if err := o.Read(in); err != nil {
		return err.Error()
	}
	all, err := o.Closure(commit)
	if err != nil {
		return err.Error()
	}
	s, err := o.Snapshot(commit)
	if err != nil {
		return err.Error()
	}
	if _, err := s.Zip(io.Discard, "", func(gitpack.File) bool { return true }); err != nil {
		return err.Error()
	}
	if err := o.WritePack(io.Discard, all); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d files", len(s.Files))
}

// TestRepeated has packs whose objects come again and again: they take no space, but time.
func TestRepeated(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	zeroes := strings.Repeat("\x00", size)
	same := delta(size, size, 0xc0, 0x10)
	for name, add := range map[string]func(*packer){
		"objects":     func(p *packer) { p.add(blobType, zeroes) },
		"differences": func(p *packer) { p.difference(hashOf(blobType, zeroes), same) },
	} {
		p := &packer{}
		p.add(blobType, zeroes)
		for range 20 {
			add(p)
		}
		if o, err := objects(t, gitpack.Limits{}, p.pack()); err != nil || o.Len() != 1 {
			t.Errorf("%s: %v, want one object", name, err)
		}
		_, err := objects(t, gitpack.Limits{Bytes: 4 * size}, p.pack())
		if !fault.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "repeats") {
			t.Errorf("%s: %v, want them refused", name, err)
		}
	}
	// Each difference is applied once, although the pack has its base many times.
	p := &packer{}
	for range 3000 {
		p.plain(blobType, "0123456789")
	}
	base := hashOf(blobType, "0123456789")
	for i := range 3000 {
		p.difference(base, delta(10, 12, 0x90, 10, 2, byte(i>>8), byte(i)))
	}
	if o, err := objects(t, gitpack.Limits{}, p.pack()); err != nil || o.Len() != 3001 {
		t.Errorf("many differences from an object that comes many times: %v, want 3001 objects", err)
	}
}

// TestCircles has differences that lead to themselves.
func TestCircles(t *testing.T) {
	t.Parallel()
	for name, pack := range map[string]func(*packer){
		"of one": func(p *packer) { p.difference(gitpack.Hash{1}, delta(10, 10, 0x90, 10)) },
		"of two": func(p *packer) {
			a, b := hashOf(blobType, "0123456789"), hashOf(blobType, "012345678x")
			p.difference(a, delta(10, 10, 0x90, 9, 1, 'x'))
			p.difference(b, delta(10, 10, 0x90, 9, 1, '9'))
		},
	} {
		p := &packer{}
		pack(p)
		if _, err := objects(t, gitpack.Limits{}, p.pack()); err == nil ||
			!strings.Contains(err.Error(), "does not have") {
			t.Errorf("%s: %v, want them refused", name, err)
		}
	}
	// With one of the two in another form the circle has a beginning.
	p := &packer{}
	first := p.add(blobType, "0123456789")
	p.difference(first, delta(10, 10, 0x90, 9, 1, 'x'))
	p.difference(hashOf(blobType, "012345678x"), delta(10, 10, 0x90, 9, 1, '9'))
	if o, err := objects(t, gitpack.Limits{}, p.pack()); err != nil || o.Len() != 2 {
		t.Errorf("a circle with a beginning: %v, want two objects", err)
	}
	// Every beginning of a pack is refused.
	whole := p.pack()
	for n := range whole {
		if _, err := objects(t, gitpack.Limits{}, whole[:n]); !fault.Is(err, fault.Unprocessable) {
			t.Errorf("the first %d bytes of a pack: %v, want it refused", n, err)
		}
	}
	if _, err := objects(t, gitpack.Limits{}, bytes.Clone(whole)); err != nil {
		t.Error(err)
	}
}
