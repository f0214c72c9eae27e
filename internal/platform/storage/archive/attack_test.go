package archive_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"

	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/archive"
)

// attack is an archive that must be refused, and a part of the message.
type attack struct {
	items []item
	want  string
}

// attacks are refused in both formats.
var attacks = map[string]attack{
	"parent":            {[]item{file("../x", "")}, `entry "../x" leaves the directory`},
	"parent inside":     {[]item{file("a/../../x", "")}, `entry "a/../../x" leaves the directory`},
	"parent at the end": {[]item{dir("a/../..")}, `leaves the directory`},
	"needless parent":   {[]item{file("a/../x", "")}, `entry "a/../x" has ".." in its name`},
	"absolute":          {[]item{file("/etc/x", "")}, `entry "/etc/x" is an absolute path`},
	"two slashes":       {[]item{file("//x", "")}, `is an absolute path`},
	"long name":         {[]item{file(strings.Repeat("abcdefgh/", 460)+"x", "")}, `longer than 4096 bytes`},
	"long part":         {[]item{file(strings.Repeat("a", 256), "")}, `part longer than 255 bytes`},
	"deep":              {[]item{file(strings.Repeat("a/", 200)+"x", "")}, `nested deeper than 128`},
	"file as root":      {[]item{symlink(".", "x")}, `root directory`},
	"link to parent":    {[]item{symlink("a", "..")}, `entry "a" is a link to "..", which leaves the directory`},
	"through link":      {[]item{symlink("a", ".."), file("a/x", "")}, `entry "a/x" is placed inside the link "a"`},
	"through inner link": {[]item{dir("d"), symlink("a", "d"), file("a/x", "")},
		`entry "a/x" is placed inside the link "a"`},
	"dir through link":  {[]item{symlink("a", "."), dir("a/x")}, `is placed inside the link "a"`},
	"link through link": {[]item{symlink("a", "."), symlink("a/x", "y")}, `is placed inside the link "a"`},
	"absolute link": {[]item{symlink("a", "/etc/passwd")},
		`entry "a" is a link to "/etc/passwd", which is an absolute path`},
	"deep link": {[]item{symlink("d/e/a", "../../../x")}, `leaves the directory`},
	"link via link": {[]item{symlink("d/e/up", "../.."), symlink("x", "d/e/up/../canary")},
		`entry "x" is a link to "d/e/up/../canary", which leaves`},
	"link via later link": {[]item{symlink("x", "d/e/up/../canary"), symlink("d/e/up", "../..")}, `entry "x" is a link`},
	"chain of links": {[]item{symlink("a", "."), symlink("b", "a/a"), symlink("c", "b/b/.."), file("z", "")},
		`entry "c" is a link`},
	"circle":                {[]item{symlink("a", "b"), symlink("b", "a")}, `in a circle`},
	"link to itself":        {[]item{symlink("a", "a")}, `in a circle`},
	"exploding links":       {explodingLinks(), `too many others`},
	"empty link":            {[]item{{name: "a", mode: fs.ModeSymlink | 0o777}}, `is a link without a target`},
	"changed link":          {[]item{symlink("a", "b"), symlink("a", "c")}, `comes twice with different targets`},
	"file over dir":         {[]item{dir("a"), file("a", "")}, `entry "a" is a file in the place of a directory`},
	"file over implied dir": {[]item{file("a/b", ""), file("a", "")}, `is a file in the place of a directory`},
	"file over link":        {[]item{symlink("a", "b"), file("a", "")}, `is a file in the place of a symbolic link`},
	"link over file":        {[]item{file("a", ""), symlink("a", "b")}, `is a symbolic link in the place of a file`},
	"link over dir":         {[]item{dir("a/"), symlink("a", "b")}, `is a symbolic link in the place of a directory`},
	"dir over link":         {[]item{symlink("a", "b"), dir("a/")}, `is a directory in the place of a symbolic link`},
	"dir over file":         {[]item{file("a", ""), dir("a/")}, `is a directory in the place of a file`},
	"below a file":          {[]item{file("a", ""), file("a/b", "")}, `entry "a/b" is placed inside the file "a"`},
	"pipe":                  {[]item{{name: "a", mode: fs.ModeNamedPipe | 0o644}}, `entry "a" is`},
	"device":                {[]item{{name: "a", mode: fs.ModeDevice | 0o644}}, `entry "a" is`},
	"character device":      {[]item{{name: "a", mode: fs.ModeDevice | fs.ModeCharDevice | 0o644}}, `entry "a" is`},
}

// explodingLinks are few, but each leads through the next twice.
func explodingLinks() []item {
	var items []item
	for i := range 30 {
		items = append(items, symlink(fmt.Sprintf("l%d", i), fmt.Sprintf("l%d/../l%d", i+1, i+1)))
	}
	return items
}

func TestAttacks(t *testing.T) {
	t.Parallel()
	for name, a := range attacks {
		t.Run("zip "+name, func(t *testing.T) {
			t.Parallel()
			data := buildZip(t, a.items...)
			_, err := archive.CheckZip(bytes.NewReader(data), int64(len(data)), archive.Limits{})
			refused(t, err, a.want)
			p := newPen(t)
			_, err = extractZip(data, p.out, archive.Limits{})
			refused(t, err, a.want)
			p.check(t, true)
		})
		t.Run("tar "+name, func(t *testing.T) {
			t.Parallel()
			data := buildTar(t, a.items...)
			_, err := archive.CheckTar(bytes.NewReader(data), archive.Limits{})
			refused(t, err, a.want)
			p := newPen(t)
			_, err = extractTar(data, p.out, archive.Limits{})
			refused(t, err, a.want)
			p.check(t, true)
		})
	}
}

func refused(t *testing.T, err error, want string) {
	t.Helper()
	if !fault.Is(err, fault.Unprocessable) {
		t.Fatalf("got %v, want a refusal", err)
	}
	if m := message(err); !strings.HasPrefix(m, "The archive is not valid: ") || !strings.Contains(m, want) {
		t.Errorf("message %q, want %q in it", m, want)
	}
}

func TestZipAttacks(t *testing.T) {
	t.Parallel()
	valid := buildZip(t, file("a", "hello, hello, hello"), file("b", "world"))
	for name, a := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":           {nil, "it is no zip file"},
		"text":              {[]byte("<html>not a zip</html>"), "it is no zip file"},
		"cut off":           {valid[:len(valid)-30], "it is no zip file"},
		"place made up":     {edit(valid, "PK\x05\x06", 16+3, 0xff), `entry "a" is damaged`},
		"backslash":         {buildZip(t, file(`a\b`, "")), `has a backslash`},
		"backslash parent":  {buildZip(t, file(`..\x`, "")), `has a backslash`},
		"drive":             {buildZip(t, file(`C:\x`, "")), `has a backslash`},
		"NUL":               {buildZip(t, file("a\x00b", "")), `entry "a\x00b" has a NUL`},
		"NUL in a target":   {buildZip(t, symlink("a", "b\x00c")), `NUL character in its target`},
		"long target":       {buildZip(t, symlink("a", strings.Repeat("x/", 3000))), `target longer than`},
		"no name":           {buildZip(t, file("", "x")), `has no name`},
		"socket":            {buildZip(t, item{name: "s", mode: fs.ModeSocket | 0o644}), `entry "s" is neither`},
		"link with slash":   {buildZip(t, item{name: "a/", mode: fs.ModeSymlink | 0o777}), `is a directory by its name`},
		"encrypted":         {edit(valid, "PK\x01\x02", 8, 0x01), `entry "a" is encrypted`},
		"unknown method":    {edit(edit(valid, "PK\x01\x02", 10, 99), "PK\x03\x04", 8, 99), `not supported (method 99)`},
		"wrong checksum":    {edit(valid, "PK\x01\x02", 16, 0x77), `entry "a" is damaged`},
		"says less":         {edit(valid, "PK\x01\x02", 24, 1), `entry "a" is damaged`},
		"broken data":       {edit(valid, "PK\x03\x04", 40, 0xff), `entry "a" is damaged`},
		"broken list":       {edit(valid, "PK\x01\x02", 0, 'X'), `it is no zip file`},
		"wrong count":       {edit(valid, "PK\x05\x06", 10, 9), `it is no zip file`},
		"dir with content":  {rename(buildZip(t, file("abc", "x")), "abc", "ab/"), `is a directory with content`},
		"local header gone": {edit(valid, "PK\x03\x04", 0, 'X'), `entry "a" is damaged`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPen(t)
			_, err := extractZip(a.data, p.out, archive.Limits{})
			refused(t, err, a.want)
			p.check(t, true)
		})
	}
}

// edit changes one byte at an offset from the first place where magic stands.
func edit(data []byte, magic string, offset int, to byte) []byte {
	data = bytes.Clone(data)
	data[bytes.Index(data, []byte(magic))+offset] = to
	return data
}

func rename(data []byte, from, to string) []byte {
	return bytes.ReplaceAll(data, []byte(from), []byte(to))
}

func TestTarAttacks(t *testing.T) {
	t.Parallel()
	valid := buildTar(t, file("a", "hello"), file("b", "world"))
	packed := zipped(t, valid)
	for name, a := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":              {nil, "it is empty"},
		"text":                 {[]byte(strings.Repeat("this is no tar\n", 100)), "it is no tar file"},
		"short text":           {[]byte("no"), "it is damaged or cut short"},
		"cut in a header":      {valid[:1100], "cut short"},
		"cut in a body":        {valid[:514], `entry "a" is damaged or cut short`},
		"gzip cut off":         {packed[:len(packed)-20], "cut short"},
		"gzip without its end": {packed[:len(packed)-4], "cut short"},
		"gzip, wrong checksum": {append(bytes.Clone(packed[:len(packed)-8]), 1, 2, 3, 4, 5, 6, 7, 8), "damaged"},
		"gzip of text":         {zipped(t, []byte(strings.Repeat("this is no tar\n", 100))), "it is no tar file"},
		"hard link outside": {buildTar(t, hardlink("a", "../canary/file")),
			`entry "a" is a hard link to "../canary/file"`},
		"absolute hard link":   {buildTar(t, hardlink("a", "/etc/passwd")), `is a hard link to "/etc/passwd"`},
		"hard link to nothing": {buildTar(t, hardlink("a", "b")), `which is no file that came before`},
		"hard link to later":   {buildTar(t, hardlink("a", "b"), file("b", "")), `which is no file that came before`},
		"hard link to a dir":   {buildTar(t, dir("b"), hardlink("a", "b")), `which is no file that came before`},
		"hard link to itself":  {buildTar(t, file("a", ""), hardlink("a", "a")), `is a hard link to itself`},
		"hard link via link": {buildTar(t, symlink("l", "."), file("f", ""), hardlink("a", "l/f")),
			`which is no file that came before`},
		"hard link to bad link": {buildTar(t, symlink("d/l", ".."), hardlink("l", "d/l")),
			`entry "l" is a link to "..", which leaves`},
		"hard link over dir":  {buildTar(t, file("f", ""), dir("d"), hardlink("d", "f")), `in the place of a directory`},
		"continuous file":     {typed(t, tar.TypeCont), `entry "a" is of a type that is not supported ('7')`},
		"something else":      {typed(t, 'Z'), `not supported ('Z')`},
		"absolute after dots": {buildTar(t, file("./../x", "")), `leaves the directory`},
		"link, then file at link": {buildTar(t, symlink("a", "../canary/file"), file("a", "dead")),
			`is a file in the place of a symbolic link`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPen(t)
			_, err := extractTar(a.data, p.out, archive.Limits{})
			refused(t, err, a.want)
			p.check(t, true)
		})
	}
}

func typed(t *testing.T, flag byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "a", Typeflag: flag, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	return b.Bytes()
}

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestLimits(t *testing.T) {
	t.Parallel()
	small := []item{file("a", "12345"), file("b", "12345")}
	nested := []item{file("a/b/c/d", "")}
	for name, test := range map[string]struct {
		items  []item
		limits archive.Limits
		want   string
	}{
		"size":        {small, archive.Limits{Size: 9}, "it is larger than 9 bytes when inflated"},
		"size fits":   {small, archive.Limits{Size: 10}, ""},
		"file":        {small, archive.Limits{FileSize: 4}, `entry "a" is larger than 4 bytes`},
		"file fits":   {small, archive.Limits{FileSize: 5}, ""},
		"files":       {small, archive.Limits{Files: 1}, "it has more than 1 files and directories"},
		"files fit":   {small, archive.Limits{Files: 2}, ""},
		"implied":     {nested, archive.Limits{Files: 3}, "it has more than 3 files"},
		"implied fit": {nested, archive.Limits{Files: 4}, ""},
		"depth":       {nested, archive.Limits{Depth: 3}, "nested deeper than 3"},
		"depth fits":  {nested, archive.Limits{Depth: 4}, ""},
		"same again": {[]item{file("a", ""), file("a", ""), file("a", "")}, archive.Limits{Files: 2},
			"it has more than 2"},
		"outside links": {[]item{symlink("a", "/x"), symlink("b", "../..")}, archive.Limits{OutsideLinks: true}, ""},
	} {
		for format, extract := range map[string]func() error{
			"zip": func() error { _, err := extractZip(buildZip(t, test.items...), t.TempDir(), test.limits); return err },
			"tar": func() error { _, err := extractTar(buildTar(t, test.items...), t.TempDir(), test.limits); return err },
		} {
			t.Run(format+" "+name, func(t *testing.T) {
				t.Parallel()
				err := extract()
				if test.want == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				refused(t, err, test.want)
			})
		}
	}
	t.Run("a hard link counts like a copy", func(t *testing.T) {
		t.Parallel()
		_, err := extractTar(buildTar(t, file("a", "12345"), hardlink("b", "a")), t.TempDir(), archive.Limits{Size: 9})
		refused(t, err, "it is larger than 9 bytes")
	})
}

// zeroes is a zip bomb's filling.
type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestBombs(t *testing.T) {
	t.Parallel()
	const size = 65 << 20
	t.Run("zip", func(t *testing.T) {
		t.Parallel()
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		w.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, 1) })
		f, _ := w.Create("zeroes")
		if _, err := io.CopyN(f, zeroes{}, size); err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		p := newPen(t)
		_, err := extractZip(b.Bytes(), p.out, archive.Limits{})
		refused(t, err, "it inflates to more than 200 times its size")
		p.check(t, true)

		// The list says that the file is small: what counts is what comes.
		data := b.Bytes()
		at := bytes.Index(data, []byte("PK\x01\x02"))
		binary.LittleEndian.PutUint32(data[at+24:], 10)
		_, err = archive.CheckZip(bytes.NewReader(data), int64(len(data)), archive.Limits{Size: 1 << 20})
		refused(t, err, `entry "zeroes" is damaged`)
	})
	t.Run("tar", func(t *testing.T) {
		t.Parallel()
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		if err := w.WriteHeader(&tar.Header{Name: "zeroes", Size: size, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(w, zeroes{}, size); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Close(), z.Close()
		_, err := archive.CheckTar(&b, archive.Limits{})
		refused(t, err, "it inflates to more than 200 times its size")
	})
	t.Run("zeroes after the end", func(t *testing.T) {
		t.Parallel()
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(buildTar(t, file("a", "")))
		if _, err := io.CopyN(z, zeroes{}, size); err != nil {
			t.Fatal(err)
		}
		_ = z.Close()
		_, err := archive.CheckTar(&b, archive.Limits{Size: 10, Files: 10})
		refused(t, err, "larger than 10 bytes when inflated")
	})
	t.Run("many entries", func(t *testing.T) {
		t.Parallel()
		// One list entry many times over: it is refused while the list is read.
		one := buildZip(t, file("a", ""))
		start := bytes.Index(one, []byte("PK\x01\x02"))
		end := bytes.Index(one, []byte("PK\x05\x06"))
		const n = 20_000
		data := bytes.Clone(one[:start])
		for range n {
			data = append(data, one[start:end]...)
		}
		eocd := bytes.Clone(one[end:])
		binary.LittleEndian.PutUint16(eocd[8:], n)
		binary.LittleEndian.PutUint16(eocd[10:], n)
		binary.LittleEndian.PutUint32(eocd[12:], uint32(n*(end-start)))
		data = append(data, eocd...)
		_, err := archive.CheckZip(bytes.NewReader(data), int64(len(data)), archive.Limits{Files: 100})
		refused(t, err, "it has more than 100 files")
	})
	t.Run("long links", func(t *testing.T) {
		t.Parallel()
		var items []item
		for i := range 900 {
			items = append(items, symlink(fmt.Sprintf("l%d", i), strings.Repeat("x/../", 800)))
		}
		data := buildZip(t, items...)
		_, err := archive.CheckZip(bytes.NewReader(data), int64(len(data)), archive.Limits{Files: 1000})
		refused(t, err, "leads through too many others")
	})
}
