package bits

import (
	"context"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// settled is how much older than its checksums a file must be, so that it cannot have
// been written again within the resolution of the file system's clock.
const settled = 2 * time.Second

// Rescan is like Scan and Sum, and reads only files that may have changed since an
// earlier scan.
func Rescan(ctx context.Context, dir string, before []File) ([]File, error) {
	files, err := Scan(ctx, dir)
	if err != nil {
		return nil, err
	}
	known := make(map[string]File, len(before))
	for _, f := range before {
		known[f.Path] = f
	}
	var read []File
	var at []int
	for i, f := range files {
		old, ok := known[f.Path]
		if ok && old.SHA1 != "" && old.Size == f.Size && old.modified.Equal(f.modified) && f.modified.Add(settled).
			Before(old.summed) {
			files[i].SHA1, files[i].CRC, files[i].summed = old.SHA1, old.CRC, old.summed
		} else if f.Regular() {
			read, at = append(read, f), append(at, i)
		}
	}
	if err := Sum(ctx, read); err != nil {
		return nil, err
	}
	for i, f := range read {
		files[at[i]] = f
	}
	return files, nil
}

// Diff compares two scans: the files, links and folders that are new or differ by
// content, mode or kind, and the paths that are gone.
func Diff(before, after []File) (changed []File, deleted []string) {
	known := make(map[string]File, len(before))
	for _, f := range before {
		known[f.Path] = f
	}
	for _, f := range after {
		old, ok := known[f.Path]
		if !ok || old.SHA1 != f.SHA1 || old.Link != f.Link || pushedMode(old.Mode) != pushedMode(f.Mode) {
			changed = append(changed, f)
		}
		delete(known, f.Path)
	}
	for name := range known {
		deleted = append(deleted, name)
	}
	slices.Sort(deleted)
	return changed, deleted
}

// pushedMode is the part of a mode that an upload has.
func pushedMode(m fs.FileMode) fs.FileMode { return m.Type() | m.Perm() }

// Folders returns the folder and those below it that contain files of a scan.
func Folders(dir string, files []File) []string {
	all := map[string]bool{dir: true}
	for _, f := range files {
		name := path.Dir(f.Path)
		if f.Mode.IsDir() {
			name = f.Path
		}
		for ; name != "."; name = path.Dir(name) {
			all[filepath.Join(dir, filepath.FromSlash(name))] = true
		}
	}
	out := make([]string, 0, len(all))
	for name := range all {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
