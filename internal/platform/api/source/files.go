package source

import (
	"archive/zip"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/pushignore"
	"ingot/internal/platform/manifest"
	"ingot/internal/platform/storage/archive"
)

// maxIgnore limits the file with the names of files that are not deployed.
const maxIgnore = 256 << 10

// files are the files in a zip, which is checked.
type files struct{ list []entry }

// entry is a file or folder of the app, by its clean path.
type entry struct {
	*zip.File
	path string
}

// macFolder is what the archive program of macOS adds.
const macFolder = "__MACOSX"

// open reads a zip of a stranger: all of it is checked before something is made of it. A zip of one folder
// has the app in this folder, as programs that make zips do it, if enter is set.
func open(from io.ReaderAt, size int64, enter bool) (*files, error) {
	if _, err := archive.CheckZip(from, size, archive.Limits{}); err != nil {
		return nil, err
	}
	r, err := zip.NewReader(from, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // names were checked
		return nil, err
	}
	f := &files{}
	for _, one := range r.File {
		name := path.Clean(one.Name)
		if top, _, _ := strings.Cut(name, "/"); top != macFolder && name != "." {
			f.list = append(f.list, entry{one, name})
		}
	}
	if enter {
		f.enter()
	}
	return f, nil
}

// enter takes the only folder of the zip as the root.
func (f *files) enter() {
	only := ""
	for _, e := range f.list {
		top, _, nested := strings.Cut(e.path, "/")
		if !nested && !e.FileInfo().IsDir() || only != "" && top != only || strings.HasPrefix(top, ".") {
			return
		}
		only = top
	}
	f.list = below(f.list, only)
}

// below returns the entries of a folder, by their path in it.
func below(list []entry, folder string) (out []entry) {
	if folder == "" {
		return list
	}
	for _, e := range list {
		if name, ok := strings.CutPrefix(e.path, folder+"/"); ok {
			out = append(out, entry{e.File, name})
		}
	}
	return out
}

// find returns the content of the first file that exists, or nil.
func find(list []entry, most int64, names ...string) ([]byte, error) {
	for _, name := range names {
		for _, e := range list {
			if e.path != name || !e.Mode().IsRegular() {
				continue
			}
			r, err := e.Open()
			if err != nil {
				return nil, err
			}
			text, err := io.ReadAll(io.LimitReader(r, most+1))
			_ = r.Close()
			if err == nil && int64(len(text)) > most {
				err = fault.New(fault.TooLarge, "%s is larger than the limit of %d kB", name, most>>10)
			}
			return text, err
		}
	}
	return nil, nil
}

// manifest returns the text of the manifest.
func (f *files) manifest() ([]byte, error) {
	return find(f.list, manifest.MaxBytes, "manifest.yml", "manifest.yaml")
}

// pack writes a zip of the app's files in a folder to a temporary file, which is removed already. Data is copied as it
// is compressed.
func (f *files) pack(scratch, folder string) (*os.File, int64, error) {
	list := below(f.list, folder)
	patterns, err := find(list, maxIgnore, pushignore.Files...)
	if err != nil {
		return nil, 0, err
	}
	file, err := temp(scratch)
	if err != nil {
		return nil, 0, err
	}
	size, err := packTo(file, list, pushignore.Parse(string(patterns)))
	if err != nil {
		_ = file.Close()
		return nil, 0, err
	}
	return file, size, nil
}

func packTo(file *os.File, list []entry, rules pushignore.Rules) (int64, error) {
	w, n := zip.NewWriter(file), 0
	for _, e := range list {
		dir := e.FileInfo().IsDir()
		if rules.Exclude(e.path, dir) {
			continue
		}
		h := e.FileHeader
		if h.Name = e.path; dir {
			h.Name += "/"
		} else {
			n++
		}
		to, err := w.CreateRaw(&h)
		if err != nil {
			return 0, err
		}
		raw, err := e.OpenRaw()
		if err != nil {
			return 0, err
		}
		if _, err := io.Copy(to, raw); err != nil {
			return 0, err
		}
	}
	if n == 0 {
		return 0, fault.New(fault.Unprocessable, "There are no files to deploy")
	}
	if err := w.Close(); err != nil {
		return 0, err
	}
	return file.Seek(0, io.SeekEnd)
}
