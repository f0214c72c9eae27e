package archive_test

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/archive"
)

func layerTar(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == 0 {
			h.Typeflag, h.Size = tar.TypeReg, 1
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg && h.Size > 0 {
			if _, err := w.Write(make([]byte, h.Size)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestExtractLayer(t *testing.T) {
	t.Parallel()
	dir := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755} }
	for name, test := range map[string]struct {
		headers         []tar.Header
		removed, opaque []string
		files           []string
		wrong           string
	}{
		"names": {headers: []tar.Header{{Name: "/abs"}, {Name: "./dot"}, dir("/"), dir("./")},
			files: []string{"abs", "dot"}},
		"devices": {headers: []tar.Header{{Name: "dev/null", Typeflag: tar.TypeChar},
			{Name: "dev/sda", Typeflag: tar.TypeBlock}, {Name: "pipe", Typeflag: tar.TypeFifo}, {Name: "x"}},
			files: []string{"x"}},
		"outside links": {headers: []tar.Header{{Name: "etc", Typeflag: tar.TypeSymlink, Linkname: "/usr/etc"}},
			files: []string{"etc"}},
		"hard link": {headers: []tar.Header{{Name: "a"}, {Name: "b", Typeflag: tar.TypeLink, Linkname: "/a"}},
			files: []string{"a", "b"}},
		"removed": {headers: []tar.Header{dir("d/"), {Name: "d/.wh.old"}, {Name: ".wh.top"}, {Name: "d/.wh..wh.plnk"}},
			removed: []string{"d/old", "top"}, files: []string{"d"}},
		"removed twice": {headers: []tar.Header{{Name: ".wh.a"}, {Name: "./.wh.a"}}, removed: []string{"a"}},
		"implied": {headers: []tar.Header{{Name: "x/y/.wh.z"}}, removed: []string{"x/y/z"},
			files: []string{"x", "x/y"}},
		"replaced": {headers: []tar.Header{{Name: ".wh.f"}, {Name: "f"}, {Name: ".wh.d"}, dir("d/"), {Name: "d/new"}},
			opaque: []string{"d"}, files: []string{"d", "d/new", "f"}},
		"opaque": {headers: []tar.Header{dir("d/"), {Name: "d/.wh..wh..opq"}, {Name: "d/new"}}, opaque: []string{"d"},
			files: []string{"d", "d/new"}},
		"opaque root":   {headers: []tar.Header{{Name: ".wh..wh..opq"}}, opaque: []string{"."}},
		"leaves":        {headers: []tar.Header{{Name: "../x"}}, wrong: "leaves the directory"},
		"removes above": {headers: []tar.Header{{Name: "../.wh.x"}}, wrong: "leaves the directory"},
		"removes dots":  {headers: []tar.Header{{Name: ".wh..."}}, wrong: "removes no valid name"},
		"in a link": {headers: []tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, {Name: "l/passwd"}},
			wrong: "inside the link"},
		"link outside": {headers: []tar.Header{{Name: "a", Typeflag: tar.TypeLink, Linkname: "../../etc/passwd"}},
			wrong: "hard link"},
		"too large": {headers: []tar.Header{{Name: "a", Typeflag: tar.TypeReg, Size: 2 << 20}}, wrong: "larger than"},
		"too many":  {headers: slices.Repeat([]tar.Header{{Name: "a"}}, 101), wrong: "more than 100 files"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			got, err := archive.ExtractLayer(bytes.NewReader(layerTar(t, test.headers...)), out,
				archive.Limits{Size: 1 << 20, Files: 100})
			if test.wrong != "" {
				if !fault.Is(err, fault.Unprocessable) || !strings.Contains(err.Error(), test.wrong) {
					t.Errorf("error %v, want %q", err, test.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var files []string
			for name := range tree(t, out) {
				files = append(files, name)
			}
			slices.Sort(files)
			if !slices.Equal(got.Removed, test.removed) || !slices.Equal(got.Opaque, test.opaque) ||
				!slices.Equal(files, test.files) {
				t.Errorf("removed %q, opaque %q, files %q; want %q, %q, %q", got.Removed, got.Opaque, files, test.removed,
					test.opaque, test.files)
			}
		})
	}
}

func TestExtractLayerCompressed(t *testing.T) {
	t.Parallel()
	plain := layerTar(t, tar.Header{Name: "setuid", Typeflag: tar.TypeReg, Mode: 0o4755, Uid: 33, Gid: 44},
		tar.Header{Name: "far", Uid: 1 << 20, Gid: -1})
	var zipped, z bytes.Buffer
	gz := gzip.NewWriter(&zipped)
	_, _ = gz.Write(plain)
	_ = gz.Close()
	zs, err := zstd.NewWriter(&z)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = zs.Write(plain)
	_ = zs.Close()
	for name, data := range map[string][]byte{"plain": plain, "gzip": zipped.Bytes(), "zstd": z.Bytes()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			if _, err := archive.ExtractLayer(bytes.NewReader(data), out, archive.Limits{}); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(filepath.Join(out, "setuid"))
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode() != 0o755 {
				t.Errorf("mode %v, want no set-user-id", info.Mode())
			}
			if os.Geteuid() != 0 {
				return // owners need root
			}
			for name, want := range map[string][2]uint32{"setuid": {33, 44}, "far": {65534, 65534}} {
				info, err := os.Stat(filepath.Join(out, name))
				if err != nil {
					t.Fatal(err)
				}
				if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != want[0] || st.Gid != want[1] {
					t.Errorf("%s belongs to %d:%d, want %v", name, st.Uid, st.Gid, want)
				}
			}
		})
	}
	if _, err := archive.ExtractLayer(bytes.NewReader(zipped.Bytes()[:zipped.Len()-4]), t.TempDir(),
		archive.Limits{}); !fault.Is(err, fault.Unprocessable) {
		t.Errorf("cut short: %v, want an error", err)
	}
}
