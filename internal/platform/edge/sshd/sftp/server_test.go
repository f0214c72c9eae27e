package sftp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"ingot/internal/base/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client speaks to a server over pipes.
type client struct {
	*testing.T
	in   io.Writer
	out  *bufio.Reader
	last uint32
	dir  string
}

func setup(t *testing.T) *client {
	t.Helper()
	toServer, in := io.Pipe()
	out, fromServer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Serve(toServer, fromServer)
		_ = fromServer.Close()
		ended <- err
	}()
	t.Cleanup(func() {
		_ = in.Close()
		if err := <-ended; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
	c := &client{T: t, in: in, out: bufio.NewReader(out), dir: t.TempDir()}
	kind, p := c.exchange(newPacket(kindInit).uint32(3))
	if kind != kindVersion || p.uint32() != 3 || p.string() != "posix-rename@openssh.com" {
		t.Fatalf("no version: %d", kind)
	}
	return c
}

func (c *client) exchange(p packet) (byte, *parser) {
	c.Helper()
	if _, err := c.in.Write(p.seal()); err != nil {
		c.Fatal(err)
	}
	kind, payload, _, err := readPacket(c.out, nil)
	if err != nil {
		c.Fatal(err)
	}
	return kind, &parser{b: payload}
}

// ask sends a request and returns the answer without its number.
func (c *client) ask(kind byte, rest packet) (byte, *parser) {
	c.Helper()
	c.last++
	answer, p := c.exchange(append(newPacket(kind).uint32(c.last), rest...))
	if id := p.uint32(); id != c.last {
		c.Fatalf("answer %d to request %d", id, c.last)
	}
	return answer, p
}

// status sends a request that is answered by a status.
func (c *client) status(kind byte, rest packet) uint32 {
	c.Helper()
	answer, p := c.ask(kind, rest)
	if answer != kindStatus {
		c.Fatalf("answer %d to %d", answer, kind)
	}
	return p.uint32()
}

func (c *client) want(status uint32, kind byte, rest packet) {
	c.Helper()
	if got := c.status(kind, rest); got != status {
		c.Errorf("request %d: status %d, want %d", kind, got, status)
	}
}

func (c *client) path(name string) packet { return packet(nil).string(filepath.Join(c.dir, name)) }

func (c *client) open(name string, flags uint32, a attrs) string {
	c.Helper()
	kind, p := c.ask(kindOpen, c.path(name).uint32(flags).attrs(a))
	if kind != kindHandle {
		c.Fatalf("open %s: %d", name, p.uint32())
	}
	return p.string()
}

func handleOf(key string) packet { return packet(nil).string(key) }

func TestFile(t *testing.T) {
	t.Parallel()
	c := setup(t)
	h := c.open("file", openRead|openWrite|openCreate|openExcl, attrs{flags: hasMode, mode: 0o640})
	c.want(statusOK, kindWrite, handleOf(h).uint64(3).string("def"))
	c.want(statusOK, kindWrite, handleOf(h).uint64(0).string("abc"))
	if kind, p := c.ask(kindRead, handleOf(h).uint64(1).uint32(100)); kind != kindData || p.string() != "bcdef" {
		t.Errorf("read: %d", kind)
	}
	c.want(statusEOF, kindRead, handleOf(h).uint64(6).uint32(1))
	if kind, p := c.ask(kindFstat, handleOf(h)); kind != kindAttrs {
		t.Errorf("fstat: %d", kind)
	} else if a := p.attrs(); a.size != 6 || a.mode != syscall.S_IFREG|0o640 || p.bad {
		t.Errorf("attributes %+v", a)
	}
	c.want(statusOK, kindFsetstat, handleOf(h).attrs(attrs{flags: hasSize | hasMode | hasTimes, size: 2, mode: 0o600,
		atime: 1, mtime: 1000}))
	c.want(statusOK, kindExtended, packet(nil).string("fsync@openssh.com").string(h))
	c.want(statusOK, kindClose, handleOf(h))
	c.want(statusFailure, kindClose, handleOf(h))
	c.want(statusFailure, kindRead, handleOf(h).uint64(0).uint32(1))
	info, err := os.Stat(filepath.Join(c.dir, "file"))
	if err != nil || info.Size() != 2 || info.Mode().Perm() != 0o600 || info.ModTime().Unix() != 1000 {
		t.Errorf("file is %v, %v, want 2 bytes with mode 0600 of time 1000", info, err)
	}
	c.want(statusFailure, kindOpen, c.path("file").uint32(openWrite|openCreate|openExcl).attrs(attrs{}))
	c.want(statusNoFile, kindOpen, c.path("missing").uint32(openRead).attrs(attrs{}))
	c.want(statusBadMessage, kindOpen, c.path("file").uint32(0).attrs(attrs{}))
	h = c.open("file", openWrite|openAppend, attrs{})
	c.want(statusOK, kindWrite, handleOf(h).uint64(0).string("END"))
	c.want(statusOK, kindClose, handleOf(h))
	if b, err := os.ReadFile(filepath.Join(c.dir, "file")); string(b) != "abEND" {
		t.Errorf("file holds %q, %v, want abEND", b, err)
	}
	c.want(statusOK, kindSetstat, c.path("file").attrs(attrs{flags: hasSize, size: 1}))
	c.want(statusNoFile, kindSetstat, c.path("missing").attrs(attrs{flags: hasSize}))
}

func TestNames(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.want(statusOK, kindMkdir, c.path("d").attrs(attrs{flags: hasMode, mode: 0o700}))
	testkit.CheckMode(t, filepath.Join(c.dir, "d"), 0o700)
	c.want(statusFailure, kindMkdir, c.path("d").attrs(attrs{}))
	for range 2 {
		h := c.open("d/a", openWrite|openCreate, attrs{})
		c.want(statusOK, kindClose, handleOf(h))
		c.want(statusOK, kindExtended, append(packet(nil).string("posix-rename@openssh.com"),
			append(c.path("d/a"), c.path("d/b")...)...))
	}
	c.want(statusOK, kindExtended, append(packet(nil).string("hardlink@openssh.com"),
		append(c.path("d/b"), c.path("d/c")...)...))
	c.want(statusFailure, kindRename, append(c.path("d/b"), c.path("d/c")...))
	c.want(statusOK, kindRename, append(c.path("d/b"), c.path("d/e")...))
	c.want(statusOK, kindSymlink, append(packet(nil).string("e"), c.path("d/link")...))
	if kind, p := c.ask(kindReadlink, c.path("d/link")); kind != kindName || p.uint32() != 1 || p.string() != "e" {
		t.Errorf("readlink: %d", kind)
	}
	for kind, want := range map[byte]uint32{kindStat: syscall.S_IFREG, kindLstat: syscall.S_IFLNK} {
		if answer, p := c.ask(kind, c.path("d/link")); answer != kindAttrs || p.attrs().mode&^uint32(0o7777) != want {
			t.Errorf("%d of a link: %d", kind, answer)
		}
	}
	real, err := filepath.EvalSymlinks(filepath.Join(c.dir, "d", "e"))
	if err != nil {
		t.Fatal(err)
	}
	if kind, p := c.ask(kindRealpath, c.path("d/../d/./link")); kind != kindName || p.uint32() != 1 || p.string() != real {
		t.Errorf("realpath: %d", kind)
	}
	c.want(statusFailure, kindRemove, c.path("d"))
	c.want(statusFailure, kindRmdir, c.path("d/e"))
	c.want(statusFailure, kindRmdir, c.path("d"))
	c.want(statusFailure, kindOpendir, c.path("d/e"))
	for _, name := range []string{"d/e", "d/c", "d/link"} {
		c.want(statusOK, kindRemove, c.path(name))
	}
	c.want(statusOK, kindRmdir, c.path("d"))
	c.want(statusNoFile, kindRmdir, c.path("d"))
	c.want(statusNoFile, kindRemove, c.path("d"))
	c.want(statusNoFile, kindOpendir, c.path("d"))
}

func TestDirectory(t *testing.T) {
	t.Parallel()
	c := setup(t)
	const many = 250
	for i := range many {
		if err := os.WriteFile(filepath.Join(c.dir, strings.Repeat("n", i/26+1)+string(rune('a'+i%26))), nil,
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	kind, p := c.ask(kindOpendir, c.path(""))
	if kind != kindHandle {
		t.Fatalf("opendir: %d", kind)
	}
	h := p.string()
	c.want(statusFailure, kindRead, handleOf(h).uint64(0).uint32(1))
	c.want(statusFailure, kindWrite, handleOf(h).uint64(0).string("x"))
	seen := map[string]bool{}
	for {
		kind, p := c.ask(kindReaddir, handleOf(h))
		if kind == kindStatus {
			if code := p.uint32(); code != statusEOF {
				t.Errorf("status %d", code)
			}
			break
		}
		for n := p.uint32(); n > 0; n-- {
			name, long := p.string(), p.string()
			if a := p.attrs(); p.bad || a.mode&syscall.S_IFREG == 0 || !strings.HasSuffix(long, name) ||
				!strings.HasPrefix(long, "-rw") {
				t.Fatalf("entry is %q %q %+v, want a regular file with its name at the end", name, long, a)
			}
			seen[name] = true
		}
	}
	if len(seen) != many {
		t.Errorf("%d names", len(seen))
	}
	c.want(statusOK, kindClose, handleOf(h))
}

func TestBounds(t *testing.T) {
	t.Parallel()
	c := setup(t)
	if kind, p := c.ask(kindExtended, packet(nil).string("limits@openssh.com")); kind != kindReply ||
		p.uint64() != maxPacket || p.uint64() != maxData {
		t.Errorf("limits: %d", kind)
	}
	c.want(statusUnsupported, kindExtended, packet(nil).string("no-such-thing"))
	c.want(statusUnsupported, 77, packet(nil).string("x"))
	c.want(statusBadMessage, kindOpen, packet{0xff, 0xff, 0xff, 0xff})
	c.want(statusBadMessage, kindSetstat, c.path("x").uint32(hasSize))
	content := bytes.Repeat([]byte("0123456789abcdef"), maxPacket/8)
	if err := os.WriteFile(filepath.Join(c.dir, "large"), content, 0o644); err != nil {
		t.Fatal(err)
	}
	h := c.open("large", openRead, attrs{})
	if kind, p := c.ask(kindRead, handleOf(h).uint64(0).uint32(1<<31)); kind != kindData || len(p.bytes()) != maxData {
		t.Errorf("a large read: %d", kind)
	}
	c.want(statusFailure, kindRead, handleOf(h).uint64(1<<63).uint32(1))
	for range maxHandles - 1 {
		c.open("large", openRead, attrs{})
	}
	c.want(statusFailure, kindOpen, c.path("large").uint32(openRead).attrs(attrs{}))
	c.want(statusFailure, kindOpendir, c.path(""))
}

func TestServeRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"\x00\x00\x00\x00\x01", "\xff\xff\xff\xff\x01", "\x00\x00\x00\x05\x01\x00"} {
		if err := Serve(strings.NewReader(text), io.Discard); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	if err := Serve(strings.NewReader(""), io.Discard); err != nil {
		t.Error(err)
	}
	broken := errors.New("gone")
	if err := Serve(bytes.NewReader(newPacket(kindInit).uint32(3).seal()), failing{broken}); !errors.Is(err, broken) {
		t.Errorf("Serve = %v", err)
	}
}

type failing struct{ error }

func (f failing) Write([]byte) (int, error) { return 0, f.error }

func TestModes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[fs.FileMode]struct {
		posix uint32
		char  byte
	}{
		0o644:                              {syscall.S_IFREG | 0o644, '-'},
		fs.ModeDir | fs.ModeSticky | 0o755: {syscall.S_IFDIR | syscall.S_ISVTX | 0o755, 'd'},
		fs.ModeSymlink | 0o777:             {syscall.S_IFLNK | 0o777, 'l'},
		fs.ModeNamedPipe:                   {syscall.S_IFIFO, 'p'}, fs.ModeSocket: {syscall.S_IFSOCK, 's'},
		fs.ModeDevice: {syscall.S_IFBLK, 'b'}, fs.ModeDevice | fs.ModeCharDevice: {syscall.S_IFCHR, 'c'},
		fs.ModeSetuid | fs.ModeSetgid | 0o755: {syscall.S_IFREG | 0o6755, '-'},
	} {
		char := fileTypes[mode.Type()].char
		if got := posixMode(mode); got != want.posix || char != want.char {
			t.Errorf("%v: %o %c, want %o %c", mode, got, char, want.posix, want.char)
		}
		const kinds = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky | fs.ModePerm
		if got := goMode(posixMode(mode)); got != mode&kinds {
			t.Errorf("%v came back as %v", mode, got)
		}
	}
}

// FuzzParser sees that no payload is read beyond its end, and that attributes
// survive. (Requests are not performed: they could say anything.)
func FuzzParser(f *testing.F) {
	f.Add([]byte{0, 0, 0, 15, 0, 0, 0, 0, 0, 0, 0, 1}, uint32(15), uint64(1))
	f.Add([]byte{0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, uint32(0), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, flags uint32, size uint64) {
		p := &parser{b: b}
		p.attrs()
		p.bytes()
		if p.bad && (p.uint64() != 0 || p.string() != "") {
			t.Error("something came after a mistake")
		}
		_, _, _, _ = readPacket(bufio.NewReader(bytes.NewReader(b)), nil)
		a := attrs{flags: flags & 15}
		if flags&hasSize != 0 {
			a.size = size
		}
		if flags&hasMode != 0 {
			a.mode = uint32(size)
		}
		back := &parser{b: packet(nil).attrs(a)}
		if got := back.attrs(); got != a || back.bad || len(back.b) != 0 {
			t.Errorf("%+v became %+v", a, got)
		}
	})
}
