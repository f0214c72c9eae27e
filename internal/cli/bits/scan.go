package bits

import (
	"context"
	"crypto/sha1" //nolint:gosec // the API identifies files by SHA-1
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"ingot/internal/base/pushignore"
)

// File is a file, a folder or a symbolic link to upload.
type File struct {
	Path string // slash-separated, relative to the pushed folder
	Mode fs.FileMode
	Size int64
	Link string // target of a symbolic link

	SHA1 string // of regular files, set by Sum
	CRC  uint32

	full     string
	modified time.Time
	summed   time.Time // when its checksums were computed
}

// Scan returns the files below a folder, sorted by name.
func Scan(ctx context.Context, dir string) ([]File, error) {
	ignored, err := rules(dir)
	if err != nil {
		return nil, err
	}
	var files []File
	err = filepath.WalkDir(dir, func(full string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(dir, full)
		rel = filepath.ToSlash(rel)
		switch {
		case errors.Is(err, fs.ErrNotExist) && full != dir:
			return nil // deleted since its folder was listed
		case err != nil:
			return readError(rel, err)
		case relErr != nil || full == dir:
			return relErr
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir // it can be huge
		}
		if ignored.Exclude(rel, d.IsDir()) {
			return nil // a !pattern may include something in the folder
		}
		f, keep, err := describe(rel, full, d)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // deleted since its folder was listed
		case err != nil:
			return readError(rel, err)
		case keep:
			files = append(files, f)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the files of the app: %w", err)
	}
	return files, nil
}

// rules reads the file that says what is not pushed.
func rules(dir string) (pushignore.Rules, error) {
	for _, name := range pushignore.Files {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			return pushignore.Parse(string(text)), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return pushignore.Rules{}, err
		}
	}
	return pushignore.Parse(""), nil
}

func describe(rel, full string, d fs.DirEntry) (File, bool, error) {
	info, err := d.Info()
	if err != nil {
		return File{}, false, err
	}
	f := File{Path: rel, Mode: uploadMode(info.Mode()), full: full, modified: info.ModTime()}
	switch {
	case info.IsDir():
		return f, true, nil
	case info.Mode().IsRegular():
		f.Size = info.Size()
		return f, true, nil
	case info.Mode()&fs.ModeSymlink != 0:
		f.Link, err = os.Readlink(full)
		f.Link = filepath.ToSlash(f.Link)
		f.Size = int64(len(f.Link))
		return f, true, err
	}
	return f, false, nil // sockets, pipes and devices are not uploaded
}

// Regular reports whether it is a regular file.
func (f File) Regular() bool { return f.Mode.IsRegular() }

// Sum reads every file once and sets its checksums.
func Sum(ctx context.Context, files []File) error {
	work := make(chan *File)
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for range min(len(files), max(2, runtime.GOMAXPROCS(0))) {
		all.Go(func() {
			buffer := make([]byte, 256<<10)
			for f := range work {
				if err := f.sum(buffer); err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
				}
			}
		})
	}
	for i := range files {
		if files[i].Regular() && ctx.Err() == nil {
			work <- &files[i]
		}
	}
	close(work)
	all.Wait()
	return errors.Join(failed, ctx.Err())
}

func (f *File) sum(buffer []byte) error {
	in, err := os.Open(f.full)
	if err != nil {
		return readError(f.Path, err)
	}
	defer in.Close()
	f.summed = time.Now()
	whole, cyclic := sha1.New(), crc32.NewIEEE() //nolint:gosec // as above
	n, err := io.CopyBuffer(io.MultiWriter(whole, cyclic), onlyReader{in}, buffer)
	if err != nil {
		return readError(f.Path, err)
	}
	f.Size, f.SHA1, f.CRC = n, hex.EncodeToString(whole.Sum(nil)), cyclic.Sum32()
	return nil
}

// onlyReader hides the file's WriteTo method, so that io.CopyBuffer uses the
// buffer.
type onlyReader struct{ io.Reader }

func crc(b []byte) uint32 { return crc32.ChecksumIEEE(b) }
